"""Beats: a process renews its leases in Redis, notices by that which are lost, and releases the others at its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

from redis.exceptions import RedisError, ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_LAST_WRITE_S = 1.0
"""Seconds for the last writes of a service that stops while Redis is unavailable."""
_POLL_S = 0.05


def beat_s(lease_ms: int) -> float:
    """Return the seconds between two beats of a lease: a quarter of it, half a second at most."""
    return min(0.5, lease_ms / 4000)


async def keep_beating(store: Store, what: str, every_s: float, beat: Callable[[], Awaitable[object]]) -> NoReturn:
    """Beat for ever. ``what`` is held, in words for the log. A beat without an answer loses nothing."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await beat()
        except OutageError as error:
            _say.warning(what, "%s are kept without a beat: %s", what, error)
        except ResponseError as error:
            store.stumbled(f"the beat of {what}", error)


async def write_before_stop(store: Store, what: str, work: Coroutine[Any, Any, None]) -> bool:
    """Do the last writes of a service that stops; returns False when Redis was unavailable for them.

    They are given up after a second without Redis: others take over when the leases end, as after a kill.
    """
    loop = asyncio.get_running_loop()
    doing, limit = loop.create_task(work), loop.time() + _LAST_WRITE_S
    try:
        while not doing.done():
            await asyncio.wait({doing}, timeout=_POLL_S)
            if store.away and loop.time() > limit:
                break
    finally:
        await cancel_all([doing])
    try:
        if not doing.cancelled():
            doing.result()
            return True
        trouble = store.trouble or "it does not answer"
    except (OutageError, RedisError, OSError) as error:
        trouble = str(error)
    log.warning("%s is left as it is, for leases to end: %s", what, trouble)
    return False
