"""The tokens that extraction may take in a day, counted in Redis for all archivers together.

A call reserves what it is estimated to take and is corrected afterwards, so archivers that ask at the same time do not
pass the bound; what an archiver that was killed had reserved stays counted. A day is one of Redis's clock: where that
steps, a day's tokens are not given twice as long as its hash is kept.
"""

import logging

from pentad.contracts.ids import rfc3339
from pentad.shared.immutable import immutable
from pentad.shared.keys import EXTRACTION_TTL_S, extraction_spending
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)


@immutable
class Reservation:
    """Tokens that were taken for one call."""

    key: str
    tenant: str
    tokens: int


class ExtractionBudget:
    """Reserves tokens for calls."""

    def __init__(self, store: Store, tokens: int, tenant_share: float) -> None:
        """``tokens``: of a day, of all tenants together; ``tenant_share``: the share of them that one may take."""
        self._store, self._tokens, self._of_tenant = store, tokens, int(tokens * tenant_share)

    @property
    def is_empty(self) -> bool:
        """Whether no token may be taken at all."""
        return self._of_tenant <= 0

    async def reserve(self, tenant: str, tokens: int, tasks: int) -> Reservation | None:
        """Take tokens for a call about so many tasks; None where fewer are left. Raises ``OutageError``.

        A tenant's first refusal of a day is logged.
        """
        key = extraction_spending(rfc3339(await self._store.clock())[:10])
        args: list[Argument] = [tenant, tokens, self._tokens, self._of_tenant, tasks, EXTRACTION_TTL_S]
        granted, *refused = await self._store.run("extract_reserve", [key], args)
        if granted:
            return Reservation(key, tenant, tokens)
        before, of_all, of_tenant = refused
        if not before:
            log.warning(
                "what is known from tasks of %s is found by rule until midnight (UTC): a call of the model takes about "
                "%d tokens, and %d of this tenant's %d and %d of all %d are taken. PENTAD_EXTRACT_TOKENS is the bound",
                tenant, tokens, of_tenant, self._of_tenant, of_all, self._tokens,
            )  # fmt: skip
        return None

    async def settle(self, reserved: Reservation, tokens: int) -> None:
        """Correct a reservation by what the call has taken. Where that fails it stays as it is: the call was made."""
        args: list[Argument] = [reserved.tenant, tokens - reserved.tokens]
        try:
            await self._store.run("extract_settle", [reserved.key], args)
        except Exception as error:
            _say.warning("settle", "extraction counts more tokens than it has taken: %s", error)


@immutable
class Spending:
    """The tokens that a tenant's extraction has taken today."""

    tokens: int
    most: int
    """Tokens that the tenant may take today."""
    refused: int
    """Tasks that no model was asked about, because too few tokens were left."""


async def spent_today(store: Store, tenant: str) -> Spending | None:
    """Return what a tenant's extraction has taken today; None where nothing was asked today. Raises ``OutageError``."""
    key = extraction_spending(rfc3339(await store.clock())[:10])
    found = await store.call("HMGET", key, f"tokens:{tenant}", "most", f"refused:{tenant}")
    tokens, most, refused = (int(number or 0) for number in found)
    return Spending(max(0, tokens), most, refused) if found[1] is not None else None
