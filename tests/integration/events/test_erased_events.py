"""Who follows a session learns that events of it were erased, and goes on from a snapshot without them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pentad.services.archiver.erased_traces import remove_events
from pentad.shared.events.feed import START
from pentad.shared.events.relay import Relay
from pentad.shared.events.subscription import CursorExpiredError, Subscription, subscribe
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store
from tests.support.waiting import PATIENCE_S

KEYS = SessionKeys(0, "t", "s")


@pytest.fixture
async def relay(store: Store) -> AsyncIterator[Relay]:
    relay = Relay(store.url, 1)
    await relay.shards[0]._begin()
    yield relay
    await relay.shards[0].close()


async def tell(store: Store, at: int, task: str) -> None:
    await store.call("XADD", KEYS.events, f"{at}-0", "data", f'{{"task_id":"{task}"}}')


async def follower(store: Store, relay: Relay) -> Subscription:
    """Has read an event of each of two tasks, and waits for what comes."""
    await tell(store, 1, "gone")
    await tell(store, 2, "kept")
    subscription = await subscribe(store, relay, KEYS, START)
    assert len(await subscription.read()) == 2
    assert await subscription._catch_up() == []
    await relay.shards[0]._turn()  # looks whether what has been read is there
    return subscription


@pytest.mark.parametrize(("tasks", "until", "position"), [((), 2, b"0-0"), (("gone",), 0, b"2-0")])
async def test_a_follower_of_an_erased_session_or_task_is_told_at_once(
    store: Store, relay: Relay, tasks: tuple[str, ...], until: int, position: bytes
) -> None:
    subscription = await follower(store, relay)
    await remove_events(store, KEYS, tasks, until)
    for _ in range(2):  # hears the ring, and looks what is left
        await relay.shards[0]._turn()
    with pytest.raises(CursorExpiredError):
        await asyncio.wait_for(subscription.read(), PATIENCE_S)
    assert subscription.position == position
    await tell(store, 9, "later")
    await relay.shards[0]._turn()
    assert [event.id for event in await subscription.read()] == [b"9-0"]
    subscription.close()
