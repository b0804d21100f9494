"""Helpers for tasks of the event loop: cancel them for certain, do long work in slices, make calls together."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")

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


class GroupedCalls(Generic[T, R]):
    """Makes calls of many tasks together: those that come while one is made, or in the same turn of the loop, are the
    next. (Known as a data loader.)

    One call is made at a time, so what it writes is written in the order of asking. Where a call is refused, each of
    its items is tried alone, so that only those are refused that must be; any other error is everybody's.
    """

    def __init__(
        self,
        together: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        most: int,
        *,
        weight: Callable[[T], int] = lambda _: 1,
        refusal: type[Exception],
        gather_s: float = 0.0,
    ) -> None:
        """``together`` makes the call, and returns one result for each item, in their order; ``most`` is what the items
        of one call weigh at most, unless it is one alone. ``refusal``: the error that may be about a single item.
        ``gather_s``: seconds for which others are waited for before a call."""
        self._together, self._most, self._weight, self._refusal = together, most, weight, refusal
        self._gather_s = gather_s
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._calling: asyncio.Task[None] | None = None

    async def call(self, item: T) -> R:
        """Make the call for this item, together with others, and return its result. Raises what the call raises."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._calling is None:
            self._calling = asyncio.create_task(self._call_all())
        return await result

    async def aclose(self) -> None:
        """Cancel the call that is being made, and all that wait."""
        if self._calling is not None:
            await cancel_all([self._calling])

    async def _call_all(self) -> None:
        taken: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._waiting:
                await asyncio.sleep(self._gather_s)  # others come too: at the least those of this turn of the loop
                if taken := self._next():
                    await self._call_for(taken)
        finally:
            self._calling = None
            for _, result in (*taken, *self._waiting):
                result.cancel()

    def _next(self) -> list[tuple[T, "asyncio.Future[R]"]]:
        taken: list[tuple[T, asyncio.Future[R]]] = []
        weight = 0
        while self._waiting:
            item, result = self._waiting[0]
            if not result.done():
                weight += self._weight(item)
                if taken and weight > self._most:
                    break
                taken.append((item, result))
            self._waiting.popleft()
        return taken

    async def _call_for(self, taken: Sequence[tuple[T, "asyncio.Future[R]"]]) -> None:
        try:
            results = await self._together([item for item, _ in taken])
            for (_, waits), result in zip(taken, results, strict=True):
                if not waits.done():
                    waits.set_result(result)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, self._refusal) and len(taken) > 1:
                for each in taken:
                    await self._call_for([each])
                return
            for _, waits in taken:
                if not waits.done():
                    waits.set_exception(error)


class CallsByKey(Generic[K, T, R]):
    """Makes calls of each key together, see `GroupedCalls`; those of several keys do not wait for each other."""

    def __init__(self, make: Callable[[K], GroupedCalls[T, R]]) -> None:
        """``make`` makes the calls of a key; they are closed when nobody waits for one of them any more."""
        self._make = make
        self._calls: dict[K, GroupedCalls[T, R]] = {}
        self._waiting: Counter[K] = Counter()

    async def call(self, key: K, item: T) -> R:
        """Make the call for this item, together with others of its key, and return its result."""
        if key not in self._calls:
            self._calls[key] = self._make(key)
        self._waiting[key] += 1
        try:
            return await self._calls[key].call(item)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                await self._calls.pop(key).aclose()
