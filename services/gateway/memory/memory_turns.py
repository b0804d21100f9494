"""Calls of memory at this gateway: a few of each tenant at a time, tenants in turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pentad.services.gateway.edge.problems import busy
from pentad.shared.work.tenant_turns import TenantTurns, TooManyWaitError

_TIMES = 4
"""Of the calls that a tenant has at a time: so many times may wait, and of all tenants be under way."""


class MemoryTurns:
    """Gives places for calls of memory."""

    def __init__(self, each: int) -> None:
        """``each``: calls of one tenant at a time."""
        self._turns = TenantTurns(each, _TIMES * each, _TIMES * each)

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """A place for one call. Raises ``ProblemError`` (429) when too many of this tenant's calls wait."""
        try:
            async with self._turns.turn(tenant):
                yield
        except TooManyWaitError as error:
            raise busy(f"too many calls of memory at once: {error}") from None
