"""A list goes on with the records behind what Redis still knows: in order, each once, nothing left out."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import rfc3339
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import ARCHIVE
from pentad.services.archiver.handlers import Archiving
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.tasks import task_list
from pentad.services.gateway.tasks.task_list import TasksByTime
from pentad.shared.errors import OutageError
from pentad.shared.keys import SessionKeys, TaskKeys, task_index
from pentad.shared.records.by_time import DAY_MS, HOUR_MS
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.erasing.erasable import Erasable
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_lists import kept

OTHER = SessionKeys(0, "default", "s2")
YEAR = 10_000 * DAY_MS
"""Long ago."""
INDEX = task_index(0, "default")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes no page shorter."""
    monkeypatch.setattr(task_list, "_LOOK_S", 3600.0)


@pytest.fixture(params=["", "memory://test-old-tasks"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where records are: in a folder, or in a store of objects."""
    if request.param:
        from fsspec.implementations.memory import MemoryFileSystem

        store = MemoryFileSystem()
        if store.exists("/test-old-tasks"):
            store.rm("/test-old-tasks", recursive=True)
    return str(request.param or tmp_path / "records")


@pytest.fixture
def records(url: str) -> Records:
    """The archiver's way there."""
    return Records(url)


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path, url: str) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_records_url=url) as service:
        yield service


@pytest.fixture
async def world(store: Store, tmp_path: Path, url: str) -> AsyncIterator[Erasable]:
    """Router, runner and archiver beside the gateway, over the same Redis and the same records."""
    world = await Erasable(store, tmp_path, records_url=url).prepare()
    yield world
    await world.aclose()


async def listed(http: httpx2.AsyncClient, **query: Any) -> list[str]:
    """All pages of a list."""
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await http.get("/v1/tasks", params=query | cursor)
        assert answer.status_code == 200, answer.text
        names += [task["task_id"] for task in answer.json()["items"]]
        if answer.json()["next"] is None:
            return names
        cursor = {"cursor": answer.json()["next"]}


async def archived(records: Records, task: str, at: int, tenant: str = "default", **about: Any) -> TaskRecord:
    """A task with a record that lists can find."""
    record = kept(task, created_at=rfc3339(at), **about).model_copy(update={"tenant_id": tenant})
    await records.write(record)
    await records.enter(record)
    return record


async def test_an_archived_task_whose_index_has_ended_is_still_listed(
    http: httpx2.AsyncClient, world: Erasable, store: Store
) -> None:
    task = await world.tell("my zebra is called Ada")
    await world.archive(task)
    await store.call("DEL", INDEX)
    (found,) = (await http.get("/v1/tasks")).json()["items"]
    assert (found["task_id"], found["status"]) == (task.task, "completed")


async def test_an_archived_task_that_was_cut_from_the_index_is_still_listed(
    http: httpx2.AsyncClient, world: Erasable, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As each archiving cuts what began longer ago than the index is kept."""
    first = await world.tell("my zebra is called Ada")
    await world.archive(first)
    monkeypatch.setattr(world.flow.archiving, "_index_ttl_s", 0)
    second = await world.tell("my boat is green", OTHER)
    await world.archive(second)
    assert await store.call("ZRANGE", INDEX, 0, -1) == []
    assert await listed(http, limit=1) == [second.task, first.task]


@pytest.mark.parametrize("of_an_hour", [1_000, 3, 1])
async def test_a_list_goes_on_over_the_seam_whatever_the_pages_are(
    http: httpx2.AsyncClient,
    store: Store,
    speaker: Speaker,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    of_an_hour: int,
) -> None:
    """Live tasks, tasks that both know, tasks that records alone know, several in one ms and in one hour."""
    monkeypatch.setattr(task_list, "_LISTED", of_an_hour)
    now, expected = await store.clock(), []
    for number, at in enumerate((now - 2, now - HOUR_MS, now - HOUR_MS, now - 20 * DAY_MS)):
        await speaker.task(f"task-0-live-{number}", created=at)
        expected.append((at, f"task-0-live-{number}"))
    for number in range(12):  # both know the first ones; of one ms some are known by records alone
        at = now - 30 * DAY_MS - number // 3 * 20 * 60_000
        await archived(records, f"task-0-kept-{number:02}", at)
        expected.append((at, f"task-0-kept-{number:02}"))
    for at, name in sorted(expected, reverse=True)[:11]:
        await store.call("ZADD", INDEX, at, name)
    await store.call("ZREM", INDEX, *(name for _, name in sorted(expected, reverse=True)[11:]))
    for number, at in enumerate((YEAR, YEAR + 1, YEAR + HOUR_MS, YEAR + DAY_MS)):
        await archived(records, f"task-0-old-{number}", at)
        expected.append((at, f"task-0-old-{number}"))
    names = [name for _, name in sorted(expected, reverse=True)]
    for limit in (1, 2, 3, 5, 200):
        assert await listed(http, limit=limit) == names
    assert await listed(http, limit=2, until=rfc3339(YEAR + HOUR_MS)) == ["task-0-old-1", "task-0-old-0"]
    assert await listed(http, limit=2, since=rfc3339(YEAR + 1), until=rfc3339(YEAR + DAY_MS)) == [
        "task-0-old-2", "task-0-old-1",
    ]  # fmt: skip
    since = rfc3339(now - 31 * DAY_MS)
    assert await listed(http, limit=3, since=since) == names[:-4]
    await store.call("DEL", INDEX)
    assert await listed(http, limit=3) == [name for name in names if "live" not in name]


@pytest.mark.parametrize("cut", [(7, 5, 4, 2, 1, 0), (1, 0)])
async def test_an_index_that_is_cut_between_two_pages_or_under_a_list_leaves_nothing_out(
    http: httpx2.AsyncClient,
    store: Store,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    cut: tuple[int, ...],
) -> None:
    """``cut``: how many are left each time, also when nothing had been archived for a while, and so nothing was cut."""
    now = await store.clock()
    names = []
    for number in range(9):
        at = now - 31 * DAY_MS + (5 - number) * 60_000
        names.append(f"task-0-{number}")
        await archived(records, names[-1], at)
        await store.call("ZADD", INDEX, at, names[-1])
    real, cuts = TasksByTime._seam, iter(cut)

    async def cutting(self: TasksByTime, tenant: str) -> Any:
        seam = await real(self, tenant)
        if (left := next(cuts, None)) is not None:
            await store.call("ZREMRANGEBYRANK", INDEX, 0, -1 - left)
        return seam

    monkeypatch.setattr(TasksByTime, "_seam", cutting)
    assert await listed(http, limit=2) == names


@pytest.mark.parametrize("days", [(31, 2, 0), (45, 0, 0), (3, 2, 1)])
async def test_every_shard_has_its_own_seam(
    redis_url: str, tmp_path: Path, store: Store, days: tuple[int, int, int]
) -> None:
    """For how many days each has an index. One that has none: its last task began so long ago that it has ended."""
    records, expected = Records(str(tmp_path / "r")), []
    now = await store.clock()
    for number in range(45):
        shard, at = number % 3, now - number * DAY_MS
        if not days[shard] and number < 32:
            continue
        name = f"task-{shard}-{number}"
        await archived(records, name, at)
        expected.append(name)
        if number < days[shard]:
            await store.call("ZADD", task_index(shard, "default"), at, name)
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_records_url=str(tmp_path / "r"), pentad_shards=3) as made,
        httpx2.AsyncClient(base_url=made.address, trust_env=False) as http,
    ):
        for limit in (1, 4, 200):
            assert await listed(http, limit=limit) == expected


async def test_nothing_is_listed_of_other_tenants_of_strangers_or_of_what_has_no_record(
    http: httpx2.AsyncClient, records: Records
) -> None:
    await archived(records, "task-0-theirs", YEAR, "acme")
    await records.enter(kept("task-0-gone", created_at=rfc3339(YEAR)))  # a crash left it behind
    await records.enter(kept("not-ours", created_at=rfc3339(YEAR)))
    await archived(records, "task-0-mine", YEAR - 1)
    assert await listed(http, limit=1) == ["task-0-mine"]


async def test_statuses_and_sessions_are_found_among_old_tasks_and_damaged_ones_are_shown(
    http: httpx2.AsyncClient, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        about = {"status": "failed" if number % 4 == 0 else "completed", "session_id": f"s{number % 3}"}
        await archived(records, f"task-0-{number:02}", YEAR + number * HOUR_MS // 2, **about)
    fs, root = records._place.open()
    if "memory" in fs.protocol:
        fs.rm(f"{root}/default/task-0-05", recursive=True)
    fs.pipe_file(f"{root}/default/task-0-05.json", b"{")
    read: list[str] = []
    real = Records.read

    async def noted(self: Records, tenant: str, task: str) -> TaskRecord | None:
        read.append(task)
        return await real(self, tenant, task)

    monkeypatch.setattr(Records, "read", noted)
    assert await listed(http, status="failed") == ["task-0-08", "task-0-04", "task-0-00"]
    assert await listed(http, status="unreadable") == ["task-0-05"]
    assert len(await listed(http, limit=5)) == 12
    for status in ("active", "waiting"):
        read.clear()
        assert (await listed(http, status=status), read) == ([], []), "none of these has a record"
    assert await listed(http, session_id="s1", limit=1) == ["task-0-10", "task-0-07", "task-0-04", "task-0-01"]
    assert set(read) <= {f"task-0-{number:02}" for number in (1, 4, 5, 7, 10)}, "no other session's"
    monkeypatch.setattr(Records, "days", None)  # a session's need no walk through the years
    assert await listed(http, session_id="s2") == ["task-0-11", "task-0-08", "task-0-02"]
    assert await listed(http, session_id="nobody") == []
    since, until = rfc3339(YEAR + HOUR_MS), rfc3339(YEAR + 5 * HOUR_MS)
    assert await listed(http, session_id="s1", since=since, until=until, status="completed") == ["task-0-07"]


@pytest.mark.parametrize(("bound", "to"), [("_STRETCHES", 1), ("_RECORDS", 1), ("_HEADERS", 1), ("_LOOK_S", 0.0)])
async def test_a_request_looks_at_little_and_the_next_one_goes_on(
    http: httpx2.AsyncClient, records: Records, monkeypatch: pytest.MonkeyPatch, bound: str, to: float
) -> None:
    """Also where hours have nothing that is wanted, or nothing any more: no page is the same again."""
    for number in range(8):
        name = f"task-0-{number}"
        await archived(records, name, YEAR + number * 7 * HOUR_MS, status="failed" if number in (1, 6) else "completed")
        if number % 3 == 2:
            await records.remove("default", name)
    monkeypatch.setattr(task_list, bound, to)
    monkeypatch.setattr(task_list, "_CHUNK", 2)
    listings: list[int] = []
    real = Records.began_in

    async def noted(self: Records, tenant: str, hour: int, *more: Any) -> Any:
        listings.append(hour)
        return await real(self, tenant, hour, *more)

    monkeypatch.setattr(Records, "began_in", noted)
    cursor, cursors, found = dict[str, str](), set[str](), []
    while True:
        listings.clear()
        page = (await http.get("/v1/tasks", params={"status": "failed"} | cursor)).json()
        assert len(listings) <= 2 or bound in ("_RECORDS", "_HEADERS")
        found += [task["task_id"] for task in page["items"]]
        if page["next"] is None:
            break
        assert page["next"] not in cursors
        cursors.add(page["next"])
        cursor = {"cursor": page["next"]}
    assert (found, len(cursors) > 1) == (["task-0-6", "task-0-1"], True)


@pytest.mark.parametrize("kind", ["task", "session", "user"])
async def test_what_is_erased_is_listed_no_more_and_nothing_of_it_is_left_beside_the_records(
    http: httpx2.AsyncClient, world: Erasable, store: Store, records: Records, kind: str
) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    other = await world.tell("my boat is green", OTHER, user_id="bob")
    for each in (task, other):
        await world.archive(each)
    await store.call("DEL", INDEX)
    assert await listed(http) == [other.task, task.task]
    await world.ask(kind, task)
    await world.erase()
    assert await listed(http) == [other.task]
    fs, root = records._place.open()
    assert [path for path in fs.find(root) if task.task in path] == []
    await world.archive(task)  # a redelivery brings nothing back
    assert [path for path in fs.find(root) if task.task in path] == []


async def test_an_archiver_that_was_erased_under_takes_its_entry_back(
    world: Erasable, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the task, and writes behind the one that erases: before the record, or between it and its entry."""
    fs, root = records._place.open()
    for late in ("write", "enter"):
        task = await world.tell(f"my zebra is called Ada, {late}")
        real = getattr(Records, late)

        async def behind(self: Records, record: TaskRecord, *, real: Any = real, task: TaskKeys = task) -> Any:
            if record.task.task_id == task.task:
                await world.erasures.task("default", task.task)
                await world.erase()
            return await real(self, record)

        with monkeypatch.context() as patched:
            patched.setattr(Records, late, behind)
            await world.archive(task)
        assert [path for path in fs.find(root) if task.task in path] == []


@pytest.mark.parametrize("dies", ["before", "behind"])
async def test_an_archiver_that_dies_beside_the_entry_has_it_written_by_the_next_one_once(
    http: httpx2.AsyncClient,
    world: Erasable,
    store: Store,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    dies: str,
) -> None:
    """The task is in Redis until then, so that it is listed at every moment."""
    task = await world.tell("my zebra is called Ada")
    real = Records.enter

    async def dying(self: Records, record: TaskRecord) -> bool:
        if dies == "behind":
            await real(self, record)
        raise OutageError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "enter", dying)
        with pytest.raises(OutageError):
            await world.archive(task)
    assert await listed(http) == [task.task]
    entry = Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=task.actor).to_json())
    for archiver in (world.flow.archiving, Archiving(store, world.records, 0, 60)):
        await archiver.handle(entry)
    for _ in range(2):
        assert await listed(http) == [task.task]
        await store.call("DEL", INDEX)
    fs, root = records._place.open()
    assert len([path for path in fs.find(f"{root}/default") if task.task in path]) == 3


async def test_a_task_has_one_place_in_the_index_and_in_the_records(
    http: httpx2.AsyncClient, world: Erasable, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await world.tell("my zebra is called Ada"), await world.tell("my boat is green", OTHER)
    for each in (first, second):
        created = await store.call("HGET", each.header, "created")
        assert int(await store.call("ZSCORE", INDEX, each.task)) == int(created)
        await world.archive(each)
    assert await listed(http, limit=1) == [second.task, first.task]
    monkeypatch.setattr(task_list, "_MARGIN_MS", 32 * DAY_MS)  # the records are looked at, too
    assert await listed(http, limit=1) == [second.task, first.task]


async def test_what_redis_knows_is_listed_without_a_look_at_the_records_folders(
    http: httpx2.AsyncClient, store: Store, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = await store.clock()
    for number in range(5):
        await speaker.task(f"task-0-{number}", created=now - number * 60_000)
    monkeypatch.setattr(Records, "days", None)
    since = rfc3339(now - 3 * 60_000)
    for query in ({"limit": 3}, {"since": since}, {"status": "active"}, {"since": since, "session_id": "s1"}):
        assert (await http.get("/v1/tasks", params=query)).status_code == 200, query
