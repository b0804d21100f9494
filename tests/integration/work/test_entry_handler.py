"""Work that fails is counted, backs off and is set aside in the end; outages and long work count nothing."""

import asyncio
import errno
from collections import Counter

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import ARCHIVE, DEAD
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import attempts
from pentad.shared.store.store import Store
from pentad.shared.work import entries
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import MAX_STARTS
from tests.integration.work.crew import GROUP, KEY, add, pending, settled, working
from tests.support.waiting import wait_until

LEASE_MS = 3000
"""Longer than a busy machine leaves a process without a turn."""


async def letters(store: Store) -> list[DeadLetter]:
    return [DeadLetter.model_validate_json(f[1]) for _, f in await store.call("XRANGE", DEAD.key(0), "-", "+")]


async def test_a_handler_that_always_raises_is_given_up_after_its_attempts(store: Store) -> None:
    tries = 0

    async def work(entry: Entry) -> None:
        nonlocal tries
        tries += 1
        raise ValueError("never")

    async with working(store, "one", work, attempts=3):
        await add(store, "x")
        await wait_until("the dead letter", lambda: letters(store))
    (letter,) = await letters(store)
    assert (tries, letter.attempts, letter.reason) == (3, 3, "ValueError: never")
    assert await settled(store)


async def test_an_outage_counts_nothing(store: Store) -> None:
    tries = 0

    async def work(entry: Entry) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OutageError("the record store is away")

    async with working(store, "one", work, attempts=1):
        await add(store, "x")
        await wait_until("the work being done", lambda: settled(store))
    assert (tries, await store.call("EXISTS", attempts(0), DEAD.key(0))) == (3, 0)


async def test_a_failure_of_the_machine_counts_nothing_and_readiness_says_what_is_waited_for(store: Store) -> None:
    """A handler may meet a full disk in any library: what waiting can heal is an outage wherever it comes from."""
    full = True

    async def work(entry: Entry) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")

    async with working(store, "one", work, attempts=1) as handler:
        await add(store, "x")
        await wait_until("the reason", lambda: "No space left" in (handler.consumer.trouble or ""))
        full = False
        await wait_until("the work being done", lambda: settled(store))
        await wait_until("all to be well", lambda: handler.consumer.trouble is None)
    assert await store.call("EXISTS", attempts(0), DEAD.key(0)) == 0


async def test_what_may_not_be_given_up_is_tried_until_it_is_done_and_lets_others_go_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An accepted erasure never becomes a dead letter by itself, whatever goes wrong."""
    monkeypatch.setattr(entries, "_NOT_GIVEN_UP_S", 0.01)
    monkeypatch.setattr(entries, "_BACKOFF_S", 0.001)
    tries = Counter[bytes]()

    async def work(entry: Entry) -> None:
        tries[entry.data] += 1
        if entry.data == b"bad" and tries[b"bad"] < 12:
            raise ValueError("not yet")

    async with working(store, "one", work, attempts=None):
        await add(store, "bad", "good")
        await wait_until("both to be done", lambda: settled(store) if tries[b"bad"] == 12 else False)
    assert (tries, await store.call("EXISTS", DEAD.key(0))) == ({b"bad": 12, b"good": 1}, 0)


async def test_long_work_is_not_given_to_another(store: Store) -> None:
    seen = Counter[str]()

    async def slow(name: str) -> None:
        seen[name] += 1
        await asyncio.sleep(1.2 * LEASE_MS / 1000)

    async with (
        working(store, "one", lambda _: slow("one"), lease_ms=LEASE_MS),
        working(store, "two", lambda _: slow("two"), lease_ms=LEASE_MS),
    ):
        await add(store, "x")
        await wait_until("the work being done", lambda: settled(store) if seen else False)
    assert seen.total() == 1


async def test_under_a_short_lease_what_is_held_is_kept_several_times_a_lease(store: Store) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def work(entry: Entry) -> None:
        begun.set()
        await go.wait()

    async def beats() -> int:
        stats = await store.redis.info("commandstats")
        return int(stats.get("cmdstat_xclaim", {"calls": 0})["calls"])

    async def two_in_a_lease() -> bool:
        since, before = await store.clock(), await beats()
        await asyncio.sleep(0.2)
        return await beats() - before >= 2 and await store.clock() - since < 400

    async with working(store, "one", work, lease_ms=200):
        await add(store, "x")
        await begun.wait()
        await wait_until("a lease's time with two beats", two_in_a_lease)
        go.set()


async def test_what_is_interrupted_is_handed_back_at_once(store: Store) -> None:
    begun = asyncio.Event()

    async def slow(entry: Entry) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with working(store, "one", slow, lease_ms=600_000):
        await add(store, "x")
        await begun.wait()
    assert await pending(store) == 0
    seen: list[bytes] = []

    async def quick(entry: Entry) -> None:
        seen.append(entry.data)

    async with working(store, "two", quick, lease_ms=600_000):
        await wait_until("the other worker", lambda: seen)
    assert await store.call("EXISTS", attempts(0)) == 0


async def test_starts_that_end_without_an_outcome_are_counted_apart(store: Store) -> None:
    await ensure_group(store, KEY, GROUP)
    (entry,) = await add(store, "x")
    await store.call("XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", KEY, ">")
    await store.call("HSET", attempts(0), f"{KEY} {entry} start", MAX_STARTS)

    async def work(entry: Entry) -> None:
        raise AssertionError("it is set aside before it is begun")

    async with working(store, "one", work, lease_ms=500):
        await wait_until("the dead letter", lambda: letters(store))
    (letter,) = await letters(store)
    assert "without an outcome" in letter.reason
    assert await settled(store)


async def test_an_entry_that_waits_for_a_slot_longer_than_the_lease_runs_once(store: Store) -> None:
    """Nobody beats for what waits, so its own consumer reclaims it; it must not begin it a second time."""
    seen: Counter[bytes] = Counter()

    async def work(entry: Entry) -> None:
        seen[entry.data] += 1
        await asyncio.sleep(0.8)  # longer than the lease

    handler = EntryHandler(store, work, 3)
    handler.consumer = Consumer(store, ARCHIVE, KEY, 0, "one", handler, 1, 600)
    beat = asyncio.create_task(handler.beat())
    await handler.consumer.start()
    await add(store, "a", "b", "c")
    await wait_until("all three", lambda: settled(store) if len(seen) == 3 else False)
    await handler.consumer.stop_reading()
    await handler.consumer.drain()
    await cancel_all([beat])
    assert seen == {b"a": 1, b"b": 1, b"c": 1}
    assert await letters(store) == []


async def test_work_that_another_has_taken_over_is_stopped(store: Store) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def slow(entry: Entry) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(store, "one", slow, lease_ms=600_000):
        (entry,) = await add(store, "x")
        await begun.wait()
        await store.call("XCLAIM", KEY, GROUP, "another", 0, entry)
        await wait_until("the work to be stopped", stopped.is_set)
        assert await pending(store, "another") == 1, "a beat must not claim it back"
