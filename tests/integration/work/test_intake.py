"""A worker is given no more than it can begin: what it has no room for is there for one that is idle."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from pentad.contracts.streams import ARCHIVE, EMBED, Stream
from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry
from pentad.shared.work.intake import Slots
from tests.integration.work.crew import GROUP, KEY, Plain, add, consuming, pending, settled
from tests.support.waiting import wait_until


class Busy:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running: list[Entry] = []
        self.most = 0

    async def __call__(self, entry: Entry) -> None:
        self.running.append(entry)
        self.most = max(self.most, len(self.running))
        await self.go.wait()
        self.running.remove(entry)


async def lag(store: Store) -> int:
    (group,) = await store.redis.xinfo_groups(KEY)
    return int(group["lag"])


async def test_a_burst_is_spread_over_all_that_have_room_and_the_rest_waits_for_whoever_is_free(store: Store) -> None:
    work = {name: Busy() for name in ("one", "two", "three")}
    async with AsyncExitStack() as stack:
        for name, busy in work.items():
            await stack.enter_async_context(consuming(store, name, busy, slots=8, lease_ms=600_000))
        await add(store, *map(str, range(96)))
        await wait_until("all to be busy", lambda: all(len(b.running) == 8 for b in work.values()))
        assert [await pending(store, name) for name in work] == [8, 8, 8]
        assert await lag(store) == 96 - 24
        work["two"].go.set()
        await wait_until("what waited", lambda: pending_is(store, 16))
        assert [await pending(store, name) for name in work] == [8, 0, 8]
        for busy in work.values():
            busy.go.set()
        await wait_until("the rest", lambda: settled(store))
    assert [busy.most for busy in work.values()] == [8, 8, 8]


async def pending_is(store: Store, count: int) -> bool:
    return await pending(store) == count and await lag(store) == 0


async def test_what_silent_workers_left_takes_places_too_and_leaves_some_to_what_is_fresh(store: Store) -> None:
    await ensure_group(store, KEY, GROUP)
    await add(store, *(f"left {n}" for n in range(20)))
    await store.call("XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", KEY, ">")
    left = [entry for entry, *_ in await store.call("XPENDING", KEY, GROUP, "-", "+", 100)]
    await store.call("XCLAIM", KEY, GROUP, "dead", 0, *left, "IDLE", 3_600_000, "JUSTID")
    await add(store, *(f"fresh {n}" for n in range(20)))
    busy = Busy()
    async with consuming(store, "one", busy, slots=4, lease_ms=600_000):
        await wait_until("it to be busy", lambda: len(busy.running) == 4)
        assert await pending(store, "one") == 4
        assert sorted(e.data.split()[0] for e in busy.running) == [b"fresh", b"fresh", b"left", b"left"]
        busy.go.set()
        await wait_until("the rest", lambda: settled(store))
    assert busy.most == 4


async def test_a_place_that_frees_up_is_used_at_once_by_whoever_has_one(store: Store) -> None:
    first, done = Busy(), []

    async def second(entry: Entry) -> None:
        done.append(entry)

    await add(store, "a", "b")
    async with consuming(store, "one", first, slots=1, lease_ms=600_000):
        await wait_until("the only place to be taken", lambda: first.running)
        async with consuming(store, "two", second, slots=1, lease_ms=600_000):
            await wait_until("what did not fit to be done elsewhere", lambda: done)
        first.go.set()


async def test_who_gathers_leaves_what_comes_behind_a_read_to_the_next_one_or_to_who_is_idle(store: Store) -> None:
    done: dict[str, list[bytes]] = {"gathering": [], "idle": []}

    def consumer(name: str, gather_s: float) -> Consumer:
        async def work(entry: Entry) -> None:
            done[name].append(entry.data)

        return Consumer(store, ARCHIVE, KEY, 0, name, Plain(store, name, work), 8, 600_000, gather_s)

    gathering, idle = consumer("gathering", 3600), consumer("idle", 0)
    await gathering.start()
    await add(store, "first")
    await wait_until("the first, which waits for nobody", lambda: done["gathering"])
    await add(store, "second")
    await idle.start()
    await wait_until("the second, by another", lambda: done["idle"])
    await add(store, "third")
    await wait_until("the third, by another", lambda: len(done["idle"]) == 2)
    await asyncio.gather(gathering.stop_reading(), idle.stop_reading())
    await asyncio.gather(gathering.drain(), idle.drain())
    assert done == {"gathering": [b"first"], "idle": [b"second", b"third"]}


@asynccontextmanager
async def sharing(
    store: Store, places: int, work: Callable[[str], Busy], *streams: Stream
) -> AsyncIterator[tuple[Slots, list[Consumer]]]:
    """A consumer for each of the streams, which share their places."""
    slots, consumers = Slots(places), []
    for stream in streams:
        handler = Plain(store, "one", work(stream.name))
        consumers.append(Consumer(store, stream, stream.key(0), 0, "one", handler, slots, 600_000))
        await consumers[-1].start()
    try:
        yield slots, consumers
    finally:
        await asyncio.gather(*(c.stop_reading() for c in consumers))
        await asyncio.gather(*(c.drain() for c in consumers))


async def test_consumers_that_share_their_places_begin_no_more_together_and_one_may_have_all(store: Store) -> None:
    busy = Busy()
    async with sharing(store, 4, lambda _: busy, ARCHIVE, EMBED) as (slots, _):
        await add(store, *map(str, range(9)))
        await wait_until("one of them to have all places", lambda: len(busy.running) == 4)
        await store.call("XADD", EMBED.key(0), "*", "data", "other")
        assert (slots.free, await lag(store)) == (0, 5)
        busy.go.set()
        await wait_until("both streams to be done", lambda: settled(store))
        await wait_until("the other one's entry", lambda: store.call("XLEN", EMBED.key(0)))
        await wait_until("its acknowledgement", lambda: _done(store, EMBED))
        assert busy.most == 4


async def _done(store: Store, stream: Stream) -> bool:
    (group,) = await store.redis.xinfo_groups(stream.key(0))
    return bool((group["pending"], group["lag"]) == (0, 0))


async def test_more_consumers_than_places_all_get_their_turn(store: Store) -> None:
    busy = Busy()
    busy.go.set()
    async with sharing(store, 1, lambda _: busy, ARCHIVE, EMBED):
        for _ in range(20):
            await add(store, "x")
            await store.call("XADD", EMBED.key(0), "*", "data", "y")
        await wait_until("the one", lambda: settled(store))
        await wait_until("the other", lambda: _done(store, EMBED))
    assert busy.most == 1


async def test_while_nothing_comes_and_places_are_scarce_redis_is_asked_only_now_and_then(store: Store) -> None:
    busy = Busy()
    async with sharing(store, 1, lambda _: busy, ARCHIVE, EMBED):
        await store.call("XADD", EMBED.key(0), "*", "data", "y")
        await wait_until("a start", lambda: busy.running)
        busy.go.set()
        await wait_until("its end", lambda: _done(store, EMBED))
        before = await _calls(store, "xreadgroup")
        await asyncio.sleep(1.0)
        assert await _calls(store, "xreadgroup") - before <= 10


async def _calls(store: Store, command: str) -> int:
    stats = await store.redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])
