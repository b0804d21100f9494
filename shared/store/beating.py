"""Beats: what a process holds is kept by saying so again and again, and what it has lost is noticed by that."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))


def beat_s(lease_ms: int) -> float:
    """How often what is held is kept, and what is silent looked for: four times a lease, twice a second at least."""
    return min(0.5, lease_ms / 4000)


async def keep_beating(store: Store, what: str, every_s: float, beat: Callable[[], Awaitable[object]]) -> NoReturn:
    """Beat for ever. No answer is no loss: the fence decides in the end. ``what`` is held, in words for a person."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await beat()
        except OutageError as error:
            _say.warning(what, "%s are kept without a beat: %s", what, error)
        except ResponseError as error:
            store.stumbled(f"the beat of {what}", error)
