"""A record that is written again replaces the one before, unless its writer was overtaken."""

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task, TaskRecord
from pentad.shared.errors import DamagedError, OutageError, SettingsError
from pentad.shared.records import record_store
from pentad.shared.records.record_store import Records
from tests.support.processes.system import ROOT
from tests.support.waiting import wait_until


def record(*texts: str) -> TaskRecord:
    given: dict[str, Any] = {"status": "completed", "goal": "g", "instruction": "executor", "steps": 1}
    task = Task(task_id="t", session_id="s1", created_at="a", updated_at="b", usage=TaskUsage(), **given)
    messages = [{"role": "user", "content": text} for text in texts]
    return TaskRecord(tenant_id="default", task=task, messages=messages, steps=[])


@pytest.mark.parametrize(("tenant", "task"), [("default", "../../elsewhere"), ("..", "t"), ("a/b", "t"), ("", "t")])
async def test_no_name_leads_out_of_the_store(tmp_path: Path, tenant: str, task: str) -> None:
    records = Records(str(tmp_path / "a" / "records"))
    bad = record("x")
    bad = bad.model_copy(update={"tenant_id": tenant, "task": bad.task.model_copy(update={"task_id": task})})
    with pytest.raises(ValueError, match="no record can have the name"):
        await records.write(bad)
    with pytest.raises(ValueError, match="no record can have the name"):
        await records.read(tenant, task)
    assert not (tmp_path / "a").exists()


async def test_records_outside_the_data_directory_are_for_this_user_alone(tmp_path: Path) -> None:
    """Law 13: what a tenant's users said is not for other users of the machine, whatever umask the service has."""
    before = os.umask(0)
    try:
        records = Records(str(tmp_path / "made" / "records"))
        made = record("my salary is 52,000")
        made = made.model_copy(update={"task": made.task.model_copy(update={"created_at": "2026-11-25T04:00:00.000Z"})})
        await records.write(made)
        await records.enter(made)
    finally:
        os.umask(before)
    found = list((tmp_path / "made").rglob("*"))
    assert sum(path.is_file() for path in found) == 3
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (tmp_path / "made", *found)} == {0}


async def test_a_slow_writer_does_not_undo_what_a_later_one_wrote(tmp_path: Path) -> None:
    records = Records(str(tmp_path))
    await records.write(record("a", "b"))
    await records.write(record("a"))
    assert await records.read("default", "t") == record("a", "b")
    await records.write(record("a", "c"))
    assert await records.read("default", "t") == record("a", "c")
    assert await records.read("default", "other") is None


async def test_a_writer_that_was_overtaken_between_its_look_and_its_write_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, written = threading.Event(), threading.Event()
    look = record_store._has_longer

    def slow_look(read: Any, path: str, mine: TaskRecord) -> bool:
        longer = look(read, path, mine)
        if len(mine.messages) == 1:
            looked.set()
            written.wait(0.5)  # the other writer is through by then, or is told to try again
        return longer

    async def taken() -> bool:
        try:
            await Records(str(tmp_path)).write(record("a", "b"))
        except OutageError:  # another writes this record: the archiver tries again
            return False
        return True

    async def write_longer() -> None:
        await asyncio.to_thread(looked.wait, 5)
        await wait_until("the longer record to be taken", taken)
        written.set()

    monkeypatch.setattr(record_store, "_has_longer", slow_look)
    await asyncio.gather(Records(str(tmp_path)).write(record("a")), write_longer())
    assert await Records(str(tmp_path)).read("default", "t") == record("a", "b")


DIES = """
import asyncio, os, sys
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.records import record_store
from pentad.shared.records.record_store import Records
from tests.support.processes.system import ROOT
from tests.support.waiting import wait_until
from tests.integration.records.test_records import record
os.rename = os.replace = lambda *_: os._exit(9)
asyncio.run(Records(sys.argv[1]).write(record("a")))
"""


async def test_a_writer_that_dies_before_its_record_is_in_place_leaves_nothing_once_it_is_written_again(
    tmp_path: Path,
) -> None:
    died = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", DIES, str(tmp_path)], cwd=ROOT)
    assert (died.returncode, await Records(str(tmp_path)).read("default", "t")) == (9, None)
    await Records(str(tmp_path)).write(record("a"))
    assert [f.name for f in (tmp_path / "default").iterdir()] == ["t.json"]
    assert await Records(str(tmp_path)).read("default", "t") == record("a")


async def test_half_a_record_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "t.json").write_bytes(record("a", "b").to_json()[:40])
    await Records(str(tmp_path)).write(record("a"))
    assert await Records(str(tmp_path)).read("default", "t") == record("a")


async def test_a_store_of_objects_keeps_the_same_rules() -> None:
    records = Records("memory://test-records")
    for texts in (("a", "b"), ("a",), ("a", "b")):
        await records.write(record(*texts))
    assert await records.read("default", "t") == record("a", "b")


async def test_of_two_writers_of_one_object_the_longer_record_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one has looked before the other wrote, and writes after it: nothing in such a store keeps it back."""
    from fsspec.implementations.memory import MemoryFileSystem

    records = Records("memory://test-two-writers")
    put = MemoryFileSystem.pipe_file

    def late(fs: Any, path: str, value: bytes, **more: Any) -> None:
        if len(TaskRecord.model_validate_json(value).messages) == 1:
            asyncio.run(Records("memory://test-two-writers").write(record("a", "b")))
        put(fs, path, value, **more)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", late)
    await records.write(record("a"))
    assert await records.read("default", "t") == record("a", "b")
    left = MemoryFileSystem().find("/test-two-writers")
    assert [path.rpartition("/")[2] for path in left] == ["000000002.json"], "nothing else stays"


async def test_an_object_of_an_earlier_version_is_read_and_replaced_by_a_longer_one() -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    store = MemoryFileSystem()
    store.pipe_file("/test-earlier/default/t.json", record("a", "b").to_json())
    records = Records("memory://test-earlier")
    assert await records.read("default", "t") == record("a", "b")
    await records.write(record("a"))
    assert await records.read("default", "t") == record("a", "b")
    await records.write(record("a", "b", "c"))
    assert await records.read("default", "t") == record("a", "b", "c")
    assert store.find("/test-earlier") == ["/test-earlier/default/t/000000003.json"]


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "it is empty"), (b"{", "it is damaged"), (b'{"version":2}', "a newer version wrote it")],
)
async def test_a_record_that_cannot_be_read_says_so(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "t.json").write_bytes(data)
    with pytest.raises(DamagedError, match=f"the record of task t cannot be read: {why}"):
        await Records(str(tmp_path)).read("default", "t")


async def test_a_record_is_on_the_disk_before_it_is_in_its_place_and_its_place_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that outlives a power cut while what was renamed does not leaves an empty record."""
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def kind(handle: int) -> str:
        return "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size > 0}"

    def noted_sync(handle: int) -> None:
        done.append(kind(handle))
        sync(handle)

    def noted_replace(old: str, new: str) -> None:
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    await Records(str(tmp_path)).write(record("a"))
    assert done == ["folder", "file of True", "rename", "folder"]


async def test_what_a_killed_writer_left_long_ago_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "default"
    folder.mkdir()
    for name in ("old", "fresh", "held"):
        (folder / f"{name}.json.part").write_bytes(b"{")
        if name != "fresh":
            os.utime(folder / f"{name}.json.part", (0, 0))
    with (folder / "held.json.part").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        await Records(str(tmp_path)).write(record("a"))
    assert sorted(file.name for file in folder.iterdir()) == ["fresh.json.part", "held.json.part", "t.json"]


@pytest.mark.parametrize("url", ["zz://x", "s3://bucket/records"])
def test_a_kind_of_store_that_is_not_here_stops_the_start(url: str) -> None:
    """Whatever fsspec does not know, or has no package for."""
    with pytest.raises(SettingsError, match="PENTAD_RECORDS_URL names a store"):
        Records(url)


@pytest.mark.parametrize("url", ["", "memory://test-removing"])
async def test_a_record_that_is_removed_is_gone_in_every_version_of_it(tmp_path: Path, url: str) -> None:
    records = Records(url or str(tmp_path))
    other = record("x").model_copy(update={"task": record().task.model_copy(update={"task_id": "u"})})
    for each in (record("a"), record("a", "b"), other):
        await records.write(each)
    assert await records.names("default") == ["t", "u"]
    assert await records.naming("default", ["t", "u", "v"], '"content":"b"') == {"t": record("a", "b")}
    assert await records.names("nobody") == []
    for _ in range(2):
        await records.remove("default", "t")
        assert await records.read("default", "t") is None
    assert await records.naming("default", await records.names("default"), "") == {"u": other}


async def test_half_a_record_is_found_and_removed_too(tmp_path: Path) -> None:
    (tmp_path / "default").mkdir()
    for name in ("t.json", "u.json.part"):
        (tmp_path / "default" / name).write_text('{"user_id":"ada"')
    records = Records(str(tmp_path))
    assert await records.names("default") == ["t", "u"]
    assert await records.naming("default", ["t", "u"], '"user_id":"ada"') == {"t": None}
    for name in ("t", "u"):
        await records.remove("default", name)
    assert [*(tmp_path / "default").iterdir()] == []
