"""Waiting in tests: poll until a condition holds, and name the condition if it never does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
PATIENCE_S = 60.0
"""Seconds that a test waits for an event that must come. No passing test waits so long: the limit is for busy machines.
Tests give no other limit, unless the limit itself is the promise."""
SLOW_START = "not ready yet: "
"""Part of the line that says what a start waits for, on a machine that is busy."""


def in_time() -> asyncio.Timeout:
    """Return a time limit for a block: ``async with in_time(): ...``. Raises ``TimeoutError`` after `PATIENCE_S`."""
    return asyncio.timeout(PATIENCE_S)


@overload
async def wait_until(what: str, ask: Callable[[], Awaitable[T]], seconds: float = ...) -> T: ...
@overload
async def wait_until(what: str, ask: Callable[[], T], seconds: float = ...) -> T: ...
async def wait_until(what: str, ask: Callable[[], Any], seconds: float = PATIENCE_S) -> Any:
    """Poll ``ask`` until its answer is true, and return it. Raises ``AssertionError`` with ``what`` after the limit."""
    limit = time.monotonic() + seconds
    while True:
        answer = ask()
        value = await answer if isinstance(answer, Awaitable) else answer
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"waited {seconds} s for {what}; last answer: {value!r}")
        await asyncio.sleep(0.01)
