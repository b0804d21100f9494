"""Retries of requests to Redis that are safe to repeat, with a distinction at the end: refused, or in doubt."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from pentad.shared.errors import OutageError, RefusedWriteError

T = TypeVar("T")

PATIENCE_S = 4.0
"""Seconds for which a request is retried, while a client waits."""
_PAUSE_S = (0.05, 0.2)
_MIN_ATTEMPT_S = 0.2
"""Seconds that must be left for another attempt."""


async def persist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry a request that is safe to repeat until it is answered or the time is up.

    Raises ``RefusedWriteError`` if every attempt was refused, so that nothing was written, and ``OutageError`` if an
    attempt was not answered, so that it may have been carried out.
    """
    limit = monotonic() + PATIENCE_S
    doubt: OutageError | None = None
    while True:
        refusal = None
        try:
            async with asyncio.timeout(limit - monotonic()):
                return await attempt()
        except RefusedWriteError as error:
            refusal = error
        except OutageError as error:
            doubt = error
        except TimeoutError:
            doubt = OutageError(f"Redis has not answered for {PATIENCE_S:g} s")
        pause = random.uniform(*_PAUSE_S)
        if monotonic() + pause + _MIN_ATTEMPT_S > limit:  # without time for an answer, an attempt only adds doubt
            raise doubt or refusal or OutageError("Redis is unavailable")
        await asyncio.sleep(pause)
