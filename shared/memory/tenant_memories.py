"""Whether long-term memory has anything of a tenant, told beside it: who has nothing is not searched for."""

from time import monotonic

from pentad.shared.keys import DAY_S, remembers
from pentad.shared.store.store import Store

_NONE_TTL_S = 60
"""How long it is believed that there is nothing: archivers of earlier versions do not tell when they write."""
_SOME_FRESH_S, _NONE_FRESH_S = 30.0, 0.5
"""How long this process does not look again: what was said is found two seconds after its task's end."""
_MOST = 10_000
"""Tenants that this process remembers."""


class TenantMemories:
    """Written by who writes the memory, before it does, and by who has looked; read by who would search."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[bool, float]] = {}
        """What was last told of a tenant, and until when that is not asked again."""

    async def writing(self, tenant: str) -> None:
        """Memories of this tenant are about to be written."""
        if not self.known(tenant):
            await self._store.call("SET", remembers(tenant), "1", "EX", DAY_S)
            self._keep(tenant, there=True)

    async def looked(self, tenant: str, *, there: bool) -> None:
        """The memory was asked whether it has any. Who writes meanwhile knows better."""
        ttl_s = DAY_S if there else _NONE_TTL_S
        await self._store.call("SET", remembers(tenant), "1" if there else "0", "EX", ttl_s, "NX")
        self._keep(tenant, there=there)

    def known(self, tenant: str) -> bool | None:
        """Whether it has any, as this process knows without asking; None: it has to look."""
        there, until = self._known.get(tenant, (False, 0.0))
        return there if monotonic() < until else None

    async def look(self, tenant: str) -> bool | None:
        """Whether it has any, as is told beside the memory; None: nobody has told."""
        told: bytes | None = await self._store.call("GET", remembers(tenant))
        if told is not None:
            self._keep(tenant, there=told == b"1")
        return None if told is None else told == b"1"

    def _keep(self, tenant: str, *, there: bool) -> None:
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[tenant] = there, monotonic() + (_SOME_FRESH_S if there else _NONE_FRESH_S)
