"""Work that fails is counted, backs off and is set aside in the end; outages and long work count nothing."""

import asyncio
from collections import Counter

from contracts.streams import DEAD, DeadLetter
from shared.bus.broker import ensure_group
from shared.bus.consumer import MAX_STARTS
from shared.bus.entry import Entry
from shared.errors import OutageError
from shared.state.keys import attempts
from shared.state.store import Store
from tests.integration.bus.crew import GROUP, KEY, add, pending, settled, working
from tests.support.waiting import wait_until


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
        await wait_until("the dead letter", lambda: letters(store), 10)
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
        await wait_until("the work being done", lambda: settled(store), 10)
    assert (tries, await store.call("EXISTS", attempts(0), DEAD.key(0))) == (3, 0)


async def test_long_work_is_not_given_to_another(store: Store) -> None:
    seen = Counter[str]()

    async def slow(name: str) -> None:
        seen[name] += 1
        await asyncio.sleep(2.2)

    async with working(store, "one", lambda _: slow("one")), working(store, "two", lambda _: slow("two")):
        await add(store, "x")
        await wait_until("the work being done", lambda: settled(store) if seen else False, 10)
    assert seen.total() == 1


async def test_what_is_interrupted_is_handed_back_at_once(store: Store) -> None:
    begun = asyncio.Event()

    async def slow(entry: Entry) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with working(store, "one", slow, lease_ms=60_000):
        await add(store, "x")
        await begun.wait()
    assert await pending(store) == 0
    seen: list[bytes] = []

    async def quick(entry: Entry) -> None:
        seen.append(entry.data)

    async with working(store, "two", quick, lease_ms=60_000):
        await wait_until("the other worker", lambda: seen, 1)
    assert await store.call("EXISTS", attempts(0)) == 0


async def test_starts_that_end_without_an_outcome_are_counted_apart(store: Store) -> None:
    await ensure_group(store.redis, KEY, GROUP)
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
