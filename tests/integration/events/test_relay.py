"""The relay: which streams a reading names, and its pace: news leave at once when there are few, together when many."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.feed import START
from pentad.shared.events.relay import ShardRelay
from pentad.shared.keys import SessionKeys, bell
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until


async def test_only_load_makes_a_reading_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses, sleep = 5.0, 0, asyncio.sleep
    relay = ShardRelay(store.url, 0, lambda: None)

    async def counted(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        await sleep(seconds)

    async def paused(rings: int, passed: float) -> bool:
        nonlocal now, pauses
        now, pauses = now + passed, 0
        await asyncio.gather(*(store.call("XADD", bell(0), "*", "s", "nobody") for _ in range(rings)))
        await relay._turn()
        return pauses > 0

    monkeypatch.setattr("pentad.shared.events.relay.monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", counted)
    await relay._begin()
    assert not await paused(200, 0.0)  # the first after the start are no load yet
    assert not await paused(1, 3.0)
    assert not await paused(99, 0.1)
    assert await paused(101, 0.1)
    assert await paused(1, 0.05)
    assert not await paused(1, 0.06)
    assert not await paused(900, 60.0)  # after a silence
    assert not await paused(50, 0.09)
    assert await paused(150, 0.09)
    await relay.close()


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.position = START

    def offer(self, events: Sequence[StreamEvent]) -> None:
        self.position = events[-1].id
        self.events += [event.data for event in events]

    def lose(self) -> None:
        raise AssertionError("nothing was lost")


@pytest.fixture
async def relay(store: Store) -> AsyncIterator[ShardRelay]:
    relay = ShardRelay(store.url, 0, lambda: None)
    await relay._begin()
    yield relay
    await relay.close()


def listen(relay: ShardRelay, session: str) -> Heard:
    feed, heard = relay.feed(SessionKeys(0, "t", session)), Heard()
    feed.position = START
    feed.listeners.add(heard)
    return heard


async def tell(store: Store, session: str, text: str) -> None:
    """As a commit does: the event, then the ring."""
    keys = SessionKeys(0, "t", session)
    data = f'{{"n":"{text}"}}'
    await asyncio.gather(
        store.call("XADD", keys.events, "*", "data", data), store.call("XADD", bell(0), "*", "s", keys.actor)
    )


async def test_what_follows_in_a_session_comes_with_its_ring(store: Store, relay: ShardRelay) -> None:
    heard = listen(relay, "a")
    await tell(store, "a", "1")
    await relay._turn()  # hears the ring
    await relay._turn()
    assert heard.events == [b'{"n":"1"}']
    for n in ("2", "3"):
        await tell(store, "a", n)
        await relay._turn()
        assert heard.events[-1] == b'{"n":"%s"}' % n.encode()


async def test_a_waiting_relay_hears_a_followed_session_at_once(store: Store, relay: ShardRelay) -> None:
    heard = listen(relay, "a")
    await tell(store, "a", "1")
    await relay._turn()
    await relay._turn()
    waiting = asyncio.create_task(relay._turn())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await tell(store, "a", "2")
    await waiting
    assert heard.events[-1] == b'{"n":"2"}'


async def test_only_the_sessions_that_rang_last_are_waited_for(store: Store, relay: ShardRelay) -> None:
    names = [f"s{n}" for n in range(40)]
    everyone = {name: listen(relay, name) for name in names}
    for name in names:
        await tell(store, name, "1")
    while any(not heard.events for heard in everyone.values()):
        await relay._turn()
    assert [feed.keys.session for feed in relay._followed.values()] == names[-4:]
    relay.release(relay.feeds[SessionKeys(0, "t", names[-1]).actor.encode()])
    assert [feed.keys.session for feed in relay._followed.values()] == names[-4:-1]
    await tell(store, names[0], "2")
    await relay._turn()
    await relay._turn()
    assert everyone[names[0]].events[-1] == b'{"n":"2"}'


async def test_a_lost_ring_is_made_up_for_by_the_sweep(store: Store, relay: ShardRelay) -> None:
    heard = listen(relay, "a")
    await store.call("XADD", SessionKeys(0, "t", "a").events, "*", "data", '{"n":"1"}')
    await wait_until("the sweep", lambda: _turned(relay, heard))


async def _turned(relay: ShardRelay, heard: Heard) -> bool:
    await relay._turn()
    return bool(heard.events)
