"""What may be repeated is tried for a while; then it matters whether it is certain that nothing happened."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from pentad.shared.errors import OutageError, RefusedWriteError

T = TypeVar("T")

PATIENCE_S = 4.0
"""How long it is tried. A client waits meanwhile."""
_PAUSE_S = (0.05, 0.2)
_LEAST_S = 0.2
"""What an attempt needs to be worth beginning."""


async def persist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat something that happens once however often it is sent, until it is answered or patience ends.

    Raises ``RefusedWriteError`` when every attempt was refused: nothing was written. Raises ``OutageError`` when one of
    them was not answered: it may have been carried out.
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
        if monotonic() + pause + _LEAST_S > limit:  # an attempt without time to be answered only makes a doubt
            raise doubt or refusal or OutageError("Redis is unavailable")
        await asyncio.sleep(pause)
