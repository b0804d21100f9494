"""The relay's pace: news leave at once when there are few, together when there are many."""

import asyncio

import pytest

import shared.bus.relay
from shared.bus.relay import ShardRelay
from shared.state.keys import bell
from shared.state.store import Store


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

    monkeypatch.setattr(shared.bus.relay, "monotonic", lambda: now)
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
