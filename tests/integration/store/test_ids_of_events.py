"""Entries of session streams, of which clients have cursors: what a new primary writes has no id of what it lacks."""

from pentad.shared.store.store import Store
from tests.support.redis.redis_server import RedisServer

AHEAD_MS = 600_000
EVENTS, BELL = "pentad:{0}:events:default:s1", "pentad:{0}:bell"


async def written(store: Store, last: str, *events: str) -> list[bytes]:
    """Write events behind this last entry, and return their ids."""
    await store.call("XADD", EVENTS, last, "data", "{}")
    for event in events:
        assert await store.run("tell_once", [f"pentad:{{0}}:{event}", EVENTS, BELL], [60, event, 1000, 60, "s1"])
    return [entry for entry, _ in await store.call("XRANGE", EVENTS, f"({last}", "+")]


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
