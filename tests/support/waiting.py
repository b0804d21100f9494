"""Waiting in tests: ask until it is so, and say what was waited for when it never is."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
PATIENCE_S = 60.0
"""How long a test waits for what must come. None that passes waits so long: it is for a machine that is busy with much
else. Whoever waits for something of its own gives no other limit, unless the limit is the promise."""


def in_time() -> asyncio.Timeout:
    """A block that must end: ``async with in_time(): ...``. Raises ``TimeoutError`` when patience is over."""
    return asyncio.timeout(PATIENCE_S)


@overload
async def wait_until(what: str, ask: Callable[[], Awaitable[T]], seconds: float = ...) -> T: ...
@overload
async def wait_until(what: str, ask: Callable[[], T], seconds: float = ...) -> T: ...
async def wait_until(what: str, ask: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Ask until the answer is true, and return it. Raises ``AssertionError`` naming ``what`` when time is up."""
    limit = time.monotonic() + seconds
    while True:
        answer = ask()
        value = await answer if isinstance(answer, Awaitable) else answer
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"waited {seconds} s for {what}; last answer: {value!r}")
        await asyncio.sleep(0.01)
