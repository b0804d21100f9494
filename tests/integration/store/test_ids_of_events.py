"""Entries of session streams, of which clients have cursors: what a new primary writes has no id of what it lacks."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.store.store import Store
from tests.support.redis.redis_server import RedisServer

AHEAD_MS = 600_000
EVENTS, BELL = "pentad:{0}:events:default:s1", "pentad:{0}:bell"


async def tell(store: Store, *events: str) -> list[bytes]:
    """Write events, and return the ids of all that the session's stream has."""
    for event in events:
        assert await store.run("tell_once", [f"pentad:{{0}}:{event}", EVENTS, BELL], [60, event, 1000, 60, "s1"])
    return [entry for entry, _ in await store.call("XRANGE", EVENTS, "-", "+")]


async def written(store: Store, last: str, *events: str) -> list[bytes]:
    """Write events behind this last entry, and return their ids."""
    await store.call("XADD", EVENTS, last, "data", "{}")
    return (await tell(store, *events))[1:]


def place(entry: bytes) -> tuple[int, ...]:
    """Return the time and the number of an id."""
    return tuple(map(int, entry.split(b"-")))


@pytest.fixture
async def lone() -> AsyncIterator[Store]:
    """A Redis of its own."""
    async with RedisServer() as server:
        store = Store(server.url)
        yield store
        await store.close()


async def test_two_histories_behind_one_entry_share_no_id_while_the_clock_is_behind_it() -> None:
    """Redis alone would count on: 6, 7, 8 in both, and a client that knows the lost 8 would miss all of the others."""
    async with RedisServer() as one, RedisServer() as other:
        lost, kept = Store(one.url), Store(other.url)
        try:
            last = f"{await lost.clock() + AHEAD_MS}-5"
            before = await written(lost, last, '{"a":1}', '{"a":2}', '{"a":3}')
            since = await written(kept, last, '{"b":1}', '{"b":2}', '{"b":3}')
        finally:
            await lost.close()
            await kept.close()
    assert (len(before), len(since)) == (3, 3)
    assert not set(before) & set(since)


async def test_an_id_is_the_time_while_the_clock_is_right() -> None:
    async with RedisServer() as server:
        store = Store(server.url)
        try:
            begun = await store.clock()
            [entry] = await written(store, f"{begun - AHEAD_MS}-5", '{"a":1}')
            assert begun <= int(entry.partition(b"-")[0]) <= await store.clock()
        finally:
            await store.close()


@pytest.mark.parametrize("ahead_ms", [900, AHEAD_MS])
async def test_two_histories_of_a_shard_share_no_id_of_a_new_session_while_the_clock_is_behind_its_time(
    ahead_ms: int,
) -> None:
    """Both have the last ring. Their events have its time, and would be counted up from 0 in both."""
    async with RedisServer() as one, RedisServer() as other:
        lost, kept = Store(one.url), Store(other.url)
        try:
            ring = f"{await lost.clock() + ahead_ms}-0"
            for history in (lost, kept):
                await history.call("XADD", BELL, ring, "s", "another")
            before = await tell(lost, '{"a":1}', '{"a":2}', '{"a":3}')
            since = await tell(kept, '{"b":1}', '{"b":2}', '{"b":3}')
        finally:
            await lost.close()
            await kept.close()
    assert (len(before), len(since)) == (3, 3)
    assert not set(before) & set(since)


async def test_a_stream_that_has_ended_goes_on_behind_itself_while_the_clock_is_behind(lone: Store) -> None:
    """It ends a day after its last event; readers that come back later have cursors of before."""
    await lone.call("XADD", BELL, f"{await lone.clock() + AHEAD_MS}-0", "s", "another")
    before: tuple[int, ...] = (0, 0)
    for number in range(8):
        (entry,) = await tell(lone, f'{{"a":{number}}}')
        assert place(entry) > before
        before = place(entry)
        await lone.call("DEL", EVENTS)


async def test_the_time_of_a_shard_is_no_earlier_than_an_event_though_a_delta_was_of_a_clock_ahead(lone: Store) -> None:
    """Deltas are written without a ring: the clock may step back between the two. A registration asks for the time."""
    (event,) = await written(lone, f"{await lone.clock() + AHEAD_MS}-5", '{"a":1}')
    assert await lone.run("shard_time", [BELL], [0]) >= place(event)[0]
