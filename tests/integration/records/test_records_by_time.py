"""What lists find beside the records: each once, nothing that has no record, nothing of what was removed."""

from pathlib import Path
from typing import Any

import pytest

from pentad.cli.main import main
from pentad.contracts.ids import rfc3339
from pentad.contracts.records import TaskRecord
from pentad.shared.memory.statements import statement
from pentad.shared.owners import Owner
from pentad.shared.records.by_time import DAY_MS, HOUR_MS, Recorded
from pentad.shared.records.record_store import Records
from tests.integration.records.test_records import record

DAY = 20_000 * DAY_MS
HOUR = DAY + 14 * HOUR_MS
LONG = "s" * 128
STORES = pytest.mark.parametrize("url", ["", "memory://test-by-time"])


def began(task: str, at: int, *texts: str, session: str = "s1") -> TaskRecord:
    given = record(*texts)
    about: dict[str, Any] = {"task_id": task, "created_at": rfc3339(at), "session_id": session}
    return given.model_copy(update={"task": given.task.model_copy(update=about)})


async def keep(records: Records, *kept: TaskRecord) -> None:
    for each in kept:
        await records.write(each)
        assert await records.enter(each)


async def by_hours(records: Records, tenant: str = "default") -> list[str]:
    """All that is entered, as a list comes by it."""
    hours = [hour for day in await records.days(tenant) for hour in await records.hours(tenant, day)]
    return sorted([each.task for hour in hours for each in await records.began_in(tenant, hour)])


async def found(records: Records, tenant: str = "default") -> list[str]:
    """The same in both orders."""
    by_sessions = [await records.of_session(tenant, session) for session in ("s1", "s2", LONG)]
    entered = await by_hours(records, tenant)
    assert entered == sorted(each.task for session in by_sessions for each in session)
    return entered


@pytest.fixture
def records(url: str, tmp_path: Path) -> Records:
    if url:
        from fsspec.implementations.memory import MemoryFileSystem

        store = MemoryFileSystem()
        if store.exists("/test-by-time"):
            store.rm("/test-by-time", recursive=True)
    return Records(url or str(tmp_path / "records"))


@STORES
async def test_what_is_entered_is_found_by_its_hour_once(records: Records) -> None:
    assert await found(records) == []
    first, last = began("task-0-a", HOUR + 1, "a"), began("task-0-b", HOUR + HOUR_MS - 1, "b", session="s2")
    before, other = began("task-0-c", HOUR - 1), began("task-0-d", HOUR - 3 * DAY_MS)
    await keep(records, first, last, before, other)
    await keep(records, began("task-0-a", HOUR + 1, "a", "b"))  # a redelivery, or another writer
    assert await records.days("default") == [DAY, DAY - 3 * DAY_MS]
    assert await records.hours("default", DAY) == [HOUR, HOUR - HOUR_MS]
    entered = sorted(await records.began_in("default", HOUR), key=lambda each: each.began)
    assert entered == [Recorded(HOUR + 1, "task-0-a"), Recorded(HOUR + HOUR_MS - 1, "task-0-b")]
    assert await records.of_session("default", "s2") == [Recorded(HOUR + HOUR_MS - 1, "task-0-b")]
    assert len(await records.of_session("default", "s1")) == 3
    assert await records.of_session("default", "s3") == await records.of_session("nobody", "s1") == []
    assert await found(records, "nobody") == []
    assert await records.names("default") == ["task-0-a", "task-0-b", "task-0-c", "task-0-d"]
    assert await records.tenants() == ["default"]


@STORES
async def test_an_hour_is_listed_a_bounded_number_at_a_time_the_newest_first(records: Records) -> None:
    """Promise: a tenant with very many tasks in an hour costs the gateway no more memory than one with few."""
    names = [f"task-0-{number:02}" for number in range(25)]
    await keep(records, *(began(name, HOUR + number // 2, "a") for number, name in enumerate(names)))
    listed: list[Recorded] = []
    while some := await records.began_in("default", HOUR, listed[-1] if listed else None, 10):
        assert len(some) <= 10
        listed += some
    assert [each.task for each in listed] == names[::-1]


@STORES
@pytest.mark.parametrize("left", [b"", b"{", b'{"version":2}'])
async def test_what_is_removed_is_entered_nowhere_also_when_nobody_can_read_it(records: Records, left: bytes) -> None:
    here, damaged, other = began("task-0-a", HOUR), began("task-0-b", HOUR - 5 * DAY_MS), began("task-0-c", HOUR)
    await keep(records, here, damaged, other)
    fs, root = records._place.open()
    fs.pipe_file(f"{root}/default/task-0-b.json", left)
    if "memory" in fs.protocol:
        fs.rm_file(f"{root}/default/task-0-b/000000000.json")
    for _ in range(2):
        for name in ("task-0-a", "task-0-b", "task-0-none"):
            await records.remove("default", name)
    assert await found(records) == ["task-0-c"]
    assert await records.names("default") == ["task-0-c"]


@STORES
async def test_a_writer_that_comes_behind_a_removal_takes_back_what_it_entered(records: Records) -> None:
    late = began("task-0-a", HOUR)
    await records.write(late)
    await records.remove("default", "task-0-a")
    await records.enter(late)
    await records.remove("default", "task-0-a", late)
    assert (await found(records), await records.names("default")) == ([], [])


@STORES
async def test_what_others_have_put_there_is_no_task(records: Records) -> None:
    await keep(records, began("task-0-a", HOUR))
    fs, root = records._place.open()
    hour, session = [str(path) for path in fs.find(f"{root}/default") if not str(path).endswith(".json")][::-1]
    there, folder = hour.rpartition("/")[2], session.rpartition("/")[0]
    for path in (
        f"{hour}/readme.txt".replace(f"/{there}", ""),
        f"{hour}.part",
        hour.replace(there, f"{int(there[:15]) + HOUR_MS:015d}-task-0-b"),
        hour.replace(there, f"{there[:15]}-.."),
        hour.replace(there, f"{there[:15]}-ä"),
        hour.replace(there, f"{'9' * 16}-task-0-d"),
        hour.replace(there, session.rpartition("/")[2]),
        f"{folder}/{there}",
        f"{folder}/{'0' * 16}-{there}",
        f"{root}/default/_by_time/2024-99-99/14/x",
        f"{root}/default/_by_time/1969-12-31/14/x",
        f"{root}/default/_by_time/notes/x",
        f"{root}/default/_by_time/{rfc3339(DAY)[:10]}/99/x",
        f"{root}/default/_by_time/readme.txt",
    ):
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, b"x")
    assert await by_hours(records) == ["task-0-a", "task-0-a.part"], "an id may have a dot"
    assert await records.of_session("default", "s1") == [Recorded(HOUR, "task-0-a")]
    assert await records.names("default") == ["task-0-a"]


@STORES
async def test_the_longest_names_fit_and_none_leads_elsewhere(records: Records) -> None:
    longest = "task-0-" + "x" * 121
    await keep(records, began(longest, HOUR, session=LONG))
    assert await found(records) == [longest]
    for tenant, task in (("default", "../../elsewhere"), ("..", "t"), ("a/b", "t"), ("_by_time", "t")):
        with pytest.raises(ValueError, match="no record can have the name"):
            await records.enter(began(task, HOUR).model_copy(update={"tenant_id": tenant}))
    assert not await records.enter(record("a")), "its times are no times"
    assert not await records.enter(began("task-0-a", 0).model_copy(update={"task": record().task}))


async def test_a_record_of_an_earlier_version_is_found_once_it_was_entered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice does no harm; a statement is in no list, and what cannot be read is said."""
    import asyncio

    monkeypatch.chdir(tmp_path)
    records = Records(str(tmp_path / "data" / "records"))
    noted = statement("task-0-note-00", Owner("default"), "boats are green", rfc3339(HOUR))
    for each in (began("task-0-a", HOUR, "a"), began("task-0-b", HOUR + 1, "b"), noted):
        await records.write(each)
    (tmp_path / "data" / "records" / "default" / "task-0-c.json").write_bytes(b"{")
    await records.write(began("task-0-a", HOUR, "a").model_copy(update={"tenant_id": "acme"}))
    for _ in range(2):
        code = await asyncio.to_thread(main, ["records", "index", "--data-dir", str(tmp_path / "data")])
        assert (code, capsys.readouterr().out.splitlines()) == (
            0,
            [
                "acme: lists find 1 record",
                "default: lists find 2 records",
                "default: 1 record cannot be read, or says no time: not in lists",
            ],
        )
    assert await found(records) == ["task-0-a", "task-0-b"]
    assert await found(records, "acme") == ["task-0-a"]
