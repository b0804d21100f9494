"""Limits on calls to the memory at this gateway: a few of each tenant at a time, tenants in turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pentad.services.gateway.edge.problems import busy
from pentad.shared.work.tenant_turns import TenantTurns, TooManyWaitError

_QUEUE_FACTOR = 4
"""Multiple of the calls of one tenant at a time: as many of its calls may wait, and calls of all tenants may run."""


class MemoryTurns:
    """Gives out the places for calls to the memory."""

    def __init__(self, each: int) -> None:
        """``each`` is the number of calls that one tenant may have at a time."""
        self._turns = TenantTurns(each, _QUEUE_FACTOR * each, _QUEUE_FACTOR * each)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Hold a place for one call. Raises ``ProblemError`` (429) if too many of the tenant's calls wait."""
        try:
            async with self._turns.turn(tenant):
                yield
        except TooManyWaitError as error:
            raise busy(f"too many calls of memory at once: {error}") from None
