"""Work is never trimmed away, groups do not rot, and what is set aside or handed back moves at once."""

from typing import Any

from pentad.contracts.streams import ARCHIVE, DEAD, EXTRACT
from pentad.shared.keys import attempts, bell, timers
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.broker import ensure_group
from tests.integration.actors.moves import SESSION, TASK, Moves

KEY = ARCHIVE.key(0)


async def fill(store: Store, count: int, *groups: str) -> list[str]:
    """A stream whose nodes are small, so that approximate trimming can cut."""
    await store.call("CONFIG", "SET", "stream-node-max-entries", 10)
    for group in groups:
        await ensure_group(store, KEY, group)
    return [(await store.call("XADD", KEY, "*", "data", n)).decode() for n in range(count)]


async def give(store: Store, group: str, count: int, consumer: str = "one") -> list[str]:
    reply = await store.call("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", KEY, ">")
    return [i.decode() for i, _ in reply[0][1]]


async def ids(store: Store) -> list[str]:
    return [i.decode() for i, _ in await store.call("XRANGE", KEY, "-", "+")]


async def test_trimming_never_cuts_what_a_group_has_not_read(store: Store) -> None:
    entries = await fill(store, 100, "fast", "slow")
    await store.call("XACK", KEY, "fast", *await give(store, "fast", 100))
    await store.call("XACK", KEY, "slow", *await give(store, "slow", 55))
    assert await store.run("trim", [KEY], []) > 0
    left = await ids(store)
    assert set(entries[55:]) <= set(left)
    assert len(left) < 60


async def test_trimming_never_cuts_what_is_pending(store: Store) -> None:
    entries = await fill(store, 100, "workers")
    given = await give(store, "workers", 100)
    await store.call("XACK", KEY, "workers", *given[:30], *given[31:])
    await store.run("trim", [KEY], [])
    assert entries[30] in await ids(store)
    await store.call("XACK", KEY, "workers", given[30])
    await store.run("trim", [KEY], [])
    assert len(await ids(store)) <= 10


async def test_a_stream_without_a_group_is_not_trimmed(store: Store) -> None:
    await fill(store, 50)
    assert await store.run("trim", [KEY], []) == 0
    assert await store.run("trim", ["pentad:{0}:nothing"], []) == 0
    assert len(await ids(store)) == 50


async def test_trimming_leaves_the_groups_lag_known(store: Store) -> None:
    await fill(store, 100, "workers")
    await store.call("XACK", KEY, "workers", *await give(store, "workers", 60))
    await store.run("trim", [KEY], [])
    groups: list[dict[str, Any]] = await store.redis.xinfo_groups(KEY)
    assert groups[0]["lag"] == 40


async def test_idle_consumers_that_hold_nothing_are_forgotten(store: Store) -> None:
    await fill(store, 2, "workers")
    for consumer in ("holder", "done"):
        entries = await give(store, "workers", 1, consumer)
    await store.call("XACK", KEY, "workers", *entries)
    await store.call("XGROUP", "CREATECONSUMER", KEY, "workers", "me")
    forget: list[Argument] = ["workers", 60_000, "me"]
    assert await store.run("forget_consumers", [KEY], forget) == 0, "they were just here"
    forget[1] = -1
    assert await store.run("forget_consumers", [KEY], forget) == 1
    assert {c["name"] for c in await store.redis.xinfo_consumers(KEY, "workers")} == {b"holder", b"me"}


async def test_an_entry_is_set_aside_once_and_acknowledged_with_it(store: Store) -> None:
    await fill(store, 1, "workers")
    (entry,) = await give(store, "workers", 1)
    args: list[Argument] = ["workers", entry, "{}"]
    assert [await store.run("set_aside", [KEY, DEAD.key(0)], args) for _ in range(2)] == [1, 0]
    assert await store.call("XLEN", DEAD.key(0)) == 1
    assert (await store.call("XPENDING", KEY, "workers"))[0] == 0


async def test_only_the_own_entries_are_handed_back(store: Store) -> None:
    await fill(store, 2, "workers")
    (mine,) = await give(store, "workers", 1, "me")
    (other,) = await give(store, "workers", 1, "other")
    args: list[Argument] = ["workers", "me", mine, "0", other, "1", "1-1", "c"]
    assert await store.run("entry_release", [KEY], args) == 1
    assert await store.run("entry_release", [KEY], args) == 0
    assert len(await give(store, "workers", 10)) == 1
    assert await store.run("entry_beat", [KEY], ["workers", "other", mine, other]) == [mine.encode()]


async def test_attempts_are_counted_and_forgotten_after_a_day(store: Store) -> None:
    assert [await store.run("entry_count", [attempts(0)], ["x 1-1 fail", 100]) for _ in range(3)] == [1, 2, 3]
    assert 0 < await store.call("TTL", attempts(0)) <= 100


async def test_something_is_told_once(store: Store) -> None:
    args: list[Argument] = [100, "{}", 100, 100, SESSION.actor]
    keys = ["pentad:{0}:seen:x", SESSION.events, bell(0)]
    assert [await store.run("tell_once", keys, args) for _ in range(2)] == [1, 0]
    assert (await store.call("XLEN", SESSION.events), await store.call("XLEN", bell(0))) == (1, 1)
    assert await store.call("TTL", SESSION.events) > 0


async def archive(moves: Moves, last_step: str) -> str:
    args: list[Argument] = ["archiver", "1-1", last_step, TASK.task, f"archive {TASK.actor}", 5000, ""]
    outcome: bytes = await moves.store.run(
        "archive", [KEY, SESSION.header, timers(0), *TASK.all(), EXTRACT.key(0)], args
    )
    return outcome.decode()


async def test_a_finished_task_leaves_with_all_its_keys(moves: Moves) -> None:
    await moves.store.call("HSET", TASK.header, "status", "completed", "last_step", "s3", "wake", "")
    for key in (TASK.log, TASK.steps):
        await moves.store.call("RPUSH", key, "x")
    for key in (TASK.calls, TASK.big):
        await moves.store.call("HSET", key, "a", "x")
    assert await moves.store.call("EXISTS", *TASK.all()) == len(TASK.all()) - 3, "all but its mail and its walk"
    await moves.store.call("HSET", SESSION.header, "done", TASK.task, "done_at", 5, "last_in", "1-1")
    assert [await archive(moves, "s3") for _ in range(2)] == ["ok", "gone"]
    assert await moves.store.call("EXISTS", *TASK.all()) == 0
    assert await moves.header(SESSION) == {"last_in": "1-1"}


async def test_a_task_that_was_opened_again_stays(moves: Moves) -> None:
    await moves.store.call("HSET", TASK.header, "last_step", "s3", "wake", "")
    assert await archive(moves, "s3") == "moved"
    assert await moves.store.call("ZCARD", timers(0)) == 0, "its next end sets the timer"


async def test_a_finished_task_that_is_busy_is_tried_again_later(moves: Moves) -> None:
    await moves.mail()
    await moves.store.call("HSET", TASK.header, "status", "failed", "last_step", "s3")
    assert await archive(moves, "s3") == "moved"
    await moves.store.call("HSET", TASK.header, "wake", "")
    assert await archive(moves, "s3") == "moved", "a message waits for the model to come back"
    assert await moves.store.call("ZCARD", timers(0)) == 1
    await moves.store.call("DEL", TASK.messages)
    assert await archive(moves, "s2") == "moved"
    assert await archive(moves, "s3") == "ok"
