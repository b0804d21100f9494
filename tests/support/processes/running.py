"""A loop that runs beside a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from pentad.shared.event_loop import cancel_all


@asynccontextmanager
async def beside(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop until the end of the block."""
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        await cancel_all([task])
