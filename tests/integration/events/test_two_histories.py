"""Law 3: what a client was shown and a new primary never had is taken back, whichever connection it was read over."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.events.feed import START
from pentad.shared.events.relay import Relay, ShardRelay
from pentad.shared.events.subscription import CursorExpiredError, Subscription, subscribe
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store
from tests.support.redis.redis_server import RedisServer

KEYS = SessionKeys(0, "t", "s")
OURS, LATER = [(f"{n}-0", f'{{"n":{n}}}') for n in (1, 2)], ("9-0", '{"n":9}')


@pytest.fixture
async def new() -> AsyncIterator[Store]:
    """The new primary: it has the first event of the two."""
    with RedisServer() as server:
        store = Store(server.url)
        await _tell(store, *OURS[:1])
        yield store
        await store.close()


@pytest.fixture
async def relay(new: Store) -> AsyncIterator[Relay]:
    """Connected to the new primary already."""
    relay = Relay(new.url, 1)
    await relay.shards[0]._begin()
    yield relay
    await relay.shards[0].close()


async def _tell(store: Store, *events: tuple[str, str]) -> None:
    for entry_id, data in events:
        await store.call("XADD", KEYS.events, entry_id, "data", data)


async def _reader(old: Store, relay: Relay) -> Subscription:
    """It has read both events at the old primary, whose connections still answer, and has joined the relay."""
    await _tell(old, *OURS)
    subscription = await subscribe(old, relay, KEYS, START)
    assert [event.data for event in await subscription.read()] == [data.encode() for _, data in OURS]
    assert await subscription._catch_up() == []
    return subscription


async def _is_told(relay: ShardRelay, new: Store, subscription: Subscription) -> None:
    await _tell(new, LATER)
    await relay._turn()
    with pytest.raises(CursorExpiredError):
        await subscription.read()


async def test_a_reader_who_joins_with_what_the_new_primary_never_had_is_told(
    store: Store, relay: Relay, new: Store
) -> None:
    subscription = await _reader(store, relay)
    await _is_told(relay.shards[0], new, subscription)
    assert subscription.position == b"9-0"


async def test_one_who_joins_others_ahead_of_them_is_told_alone(store: Store, relay: Relay, new: Store) -> None:
    other = await subscribe(new, relay, KEYS, b"1-0")
    assert await other._catch_up() == []
    subscription = await _reader(store, relay)
    assert subscription.position == b"2-0"
    await _is_told(relay.shards[0], new, subscription)
    assert [event.data for event in await other.read()] == [LATER[1].encode()]


async def test_one_who_joined_ahead_is_asked_after_again_on_the_next_connection(
    store: Store, relay: Relay, new: Store
) -> None:
    other = await subscribe(new, relay, KEYS, b"1-0")
    assert await other._catch_up() == []
    subscription = await _reader(store, relay)
    relay.shards[0]._joined.clear()
    await relay.shards[0]._begin()
    with pytest.raises(CursorExpiredError):
        await subscription.read()
