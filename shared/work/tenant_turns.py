"""Which tenant's call is next: each has a few at once, and places that are free go to those who wait, in turn."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pentad.shared.errors import PentadError


class TooManyWaitError(PentadError):
    """Raised when a tenant has as many waiting calls as it may."""


class TenantTurns:
    """Places for calls of tenants. Belongs to one event loop.

    ``each``: calls of one tenant at once; ``total``: of all; ``most_waiting``: calls of one tenant that may wait for a
    place, None for any number.
    """

    def __init__(self, each: int, total: int, most_waiting: int | None = None) -> None:
        self._each, self._free, self._most_waiting = each, total, most_waiting
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting calls by tenant, in the order of the tenants' turns: the one served last is last."""

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """A place for one call, for as long as the block lasts. Raises ``TooManyWaitError`` without waiting."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._give(tenant)

    async def _take(self, tenant: str) -> None:
        queue = self._waiting.get(tenant, ())
        if self._free and self._running[tenant] < self._each and not queue:
            self._begin(tenant)
            return
        if self._most_waiting is not None and len(queue) >= self._most_waiting:
            raise TooManyWaitError(f"{self._running[tenant]} calls are under way, and {len(queue)} wait")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._leave(tenant, place)
            else:  # the place was given in the same moment
                self._give(tenant)
            raise

    def _begin(self, tenant: str) -> None:
        self._free -= 1
        self._running[tenant] += 1

    def _give(self, tenant: str) -> None:
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        self._hand_on()

    def _hand_on(self) -> None:
        """Places that are free go to the tenants that may have one more, one each, the longest unserved first."""
        for tenant in list(self._waiting):
            if not self._free:
                return
            if self._running[tenant] < self._each:
                self._serve(tenant)

    def _serve(self, tenant: str) -> None:
        """Give a place to the tenant's next call; the tenant's turn comes again after all others'."""
        queue = self._waiting.pop(tenant)
        while queue:
            place = queue.popleft()
            if not place.cancelled():  # else its call is about to leave the queue
                self._begin(tenant)
                place.set_result(None)
                break
        if queue:
            self._waiting[tenant] = queue

    def _leave(self, tenant: str, place: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(tenant, deque())
        with suppress(ValueError):  # passed over already
            queue.remove(place)
        if not queue:
            self._waiting.pop(tenant, None)
