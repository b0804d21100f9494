"""Records in Redis whether a tenant has memories, so that tenants without any are not searched for."""

from time import monotonic

from pentad.shared.keys import DAY_S, remembers
from pentad.shared.store.store import Store

_NONE_TTL_S = 60
"""Seconds for which the absence of memories is believed: archivers of earlier versions do not announce writes."""
_SOME_FRESH_S, _NONE_FRESH_S = 30.0, 0.5
"""Seconds before this process looks again: what was said is found two seconds after its task's end."""
_MAX_TENANTS = 10_000
"""Number of tenants that this process remembers."""


class TenantMemories:
    """Written by whoever writes memories, before the write, and by whoever has searched; read before a search."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[bool, float]] = {}
        """Whether each tenant has memories, and until when that is believed."""

    async def writing(self, tenant: str) -> None:
        """Record that memories of this tenant are about to be written."""
        if not self.known(tenant):
            await self._store.call("SET", remembers(tenant), "1", "EX", DAY_S)
            self._keep(tenant, there=True)

    async def looked(self, tenant: str, *, there: bool) -> None:
        """Record whether the memory has any. A concurrent writer's record has precedence."""
        ttl_s = DAY_S if there else _NONE_TTL_S
        await self._store.call("SET", remembers(tenant), "1" if there else "0", "EX", ttl_s, "NX")
        self._keep(tenant, there=there)

    def known(self, tenant: str) -> bool | None:
        """Whether the tenant has memories, as this process knows without I/O; None: call `look`."""
        there, until = self._known.get(tenant, (False, 0.0))
        return there if monotonic() < until else None

    async def look(self, tenant: str) -> bool | None:
        """Whether the tenant has memories, as Redis says; None: nobody has recorded it."""
        told: bytes | None = await self._store.call("GET", remembers(tenant))
        if told is not None:
            self._keep(tenant, there=told == b"1")
        return None if told is None else told == b"1"

    def _keep(self, tenant: str, *, there: bool) -> None:
        if len(self._known) >= _MAX_TENANTS:
            self._known.clear()
        self._known[tenant] = there, monotonic() + (_SOME_FRESH_S if there else _NONE_FRESH_S)
