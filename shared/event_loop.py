"""Helpers for tasks of the event loop: cancel them for certain, and do long work in slices."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

LARGE_VALUE = 1 << 16
"""Bytes or characters of a value that takes so long to read or write that other tasks of the loop wait for it."""
_REPEAT_CANCEL_S = 0.05
"""Seconds after which a task that has not ended is cancelled again."""


async def cancel_all(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks, again and again until all have ended. Errors that they end with are not raised.

    redis-py looks at a pooled connection under ``asyncio.timeout(0)``. A cancellation that was asked for and not yet
    delivered when such a timeout begins is taken for the timeout's own and vanishes: one ``cancel()`` may do nothing.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_REPEAT_CANCEL_S)


async def turn_after(size: int) -> None:
    """Let other tasks of the loop run, if a value of ``size`` bytes or characters that was read or written is large."""
    if size > LARGE_VALUE:
        await asyncio.sleep(0)


class TimeSlices:
    """Runs long iterators in slices. One caller gets one slice at each turn of the loop, in the order of asking.

    A thread would take Python's lock from the loop for 5 ms again and again, which is longer than a slice takes.
    """

    def __init__(self, size: int) -> None:
        """``size``: results in one slice; to make them should take less than a millisecond."""
        self._size = size
        self._lock = asyncio.Lock()

    async def next(self, results: Iterator[T]) -> list[T]:
        """Return the next slice of results, empty at the end. One that is not full waits for no turn of the loop."""
        async with self._lock:
            taken = list(islice(results, self._size))
            if len(taken) == self._size:
                await asyncio.sleep(0)
        return taken
