"""The part of a chaos run about memory: some facts are erased, and the others are searched in the end."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from redis.asyncio import Redis

from tests.support.chaos.eraser import Eraser
from tests.support.chaos.facts import Fact, FactCount, counted
from tests.support.chaos.memory_check import Finder, NotNowError, at_work, kept_wrongly
from tests.support.chaos.plan import Model
from tests.support.waiting import PATIENCE_S

_LOOK_S, _AT_ONCE = 0.2, 2
_TIMERS = (b"remember", b"archive")
_ERASED_OF = 12
"""Number of tasks for which one session is erased, at least two sessions."""


class Teaching:
    """Erases facts and searches for the others. ``learns``: tasks are archived and learned from during the run."""

    def __init__(self, tasks: int, gateways: Callable[[], Sequence[str]], model: Model, *, learns: bool) -> None:
        self._gateways, self._learns = gateways, learns
        self._erasers = [Eraser(n, gateways, model) for n in range(max(2, tasks // _ERASED_OF))]

    async def burn(self) -> None:
        """State all facts to be erased, two at a time, and erase them."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(eraser: Eraser) -> None:
            async with room:
                await eraser.hold()

        await asyncio.gather(*map(one, self._erasers))

    async def settle(self) -> None:
        """Wait until all erased facts are gone again."""
        await asyncio.gather(*(eraser.settle() for eraser in self._erasers))

    async def result(self, facts: Sequence[Fact], redis_url: str, shards: int) -> FactCount:
        """Return the figures once the memory is idle and without faults, or when the time is up."""
        limit = time.monotonic() + PATIENCE_S
        asked = [*facts, *(eraser.fact for eraser in self._erasers)]
        async with Redis.from_url(redis_url) as redis, Finder(self._gateways()[0]) as finder:
            while True:
                found = await self._look(redis, finder, asked, redis_url, shards)
                if not found.faults or time.monotonic() > limit:
                    return found
                await asyncio.sleep(_LOOK_S)

    async def _look(
        self, redis: Redis, finder: Finder, facts: Sequence[Fact], redis_url: str, shards: int
    ) -> FactCount:
        try:
            await asyncio.wait_for(self.settle(), PATIENCE_S)
            if left := await at_work(redis, shards, _TIMERS[: 1 + self._learns]):
                return FactCount(len(facts), faults=(f"memory has still to do: {left}",))
            found = counted(await finder.traced(facts), learned=self._learns)
            wrong = await kept_wrongly(redis_url, {task for each in self._erasers for task in each.tasks})
        except (NotNowError, TimeoutError) as error:
            return FactCount(len(facts), faults=(f"memory does not answer: {error!r}",))
        return replace(found, faults=(*found.faults, *wrong))
