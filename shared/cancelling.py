"""Ending tasks for certain.

redis-py looks at a pooled connection under ``asyncio.timeout(0)``. A cancellation that was asked for and not yet
delivered when such a timeout begins is taken for the timeout's own and vanishes, so one ``cancel()`` may do nothing.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

_REPEAT_CANCEL_S = 0.05


async def cancel_all(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks until they have ended. Their errors are theirs."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_REPEAT_CANCEL_S)
