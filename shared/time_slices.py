"""Long work without a thread: a few results, or one large value, at a time; then others in the loop have their turn.

A thread would take Python's lock from the loop for 5 ms again and again, which is longer than a piece takes.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

LARGE = 1 << 16
"""Bytes or characters of one value that take so long to read or write that others in the loop wait for it."""


async def turn_after(size: int) -> None:
    """Give others in the loop a turn when a value of so many bytes or characters was large."""
    if size > LARGE:
        await asyncio.sleep(0)


class TimeSlices:
    """Runs long iterators in slices. One caller gets one slice at each turn of the loop, in the order of asking."""

    def __init__(self, size: int) -> None:
        """``size``: results of one piece; together they should take less than a millisecond."""
        self._size = size
        self._one = asyncio.Lock()

    async def next(self, making: Iterator[T]) -> list[T]:
        """The next results; none when there are no more. What fits into one piece waits for no turn of the loop."""
        async with self._one:
            piece = list(islice(making, self._size))
            if len(piece) == self._size:
                await asyncio.sleep(0)
        return piece
