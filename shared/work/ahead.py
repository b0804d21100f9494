"""Entries that were given out in the future: the server's clock has stepped back since."""

import asyncio
from typing import Any

from pentad.shared.store.store import Argument, Store

_LOOKS = 2
"""Looks, a lease apart, at which an entry must not have aged before the next may take it over."""


class Ahead:
    """Finds what XAUTOCLAIM would leave to a dead worker for as long as the clock has stepped back."""

    def __init__(self, store: Store, where: tuple[str, str, str], lease_ms: int) -> None:
        self._store, self._lease_s = store, lease_ms / 1000
        self._key, self._group, self._consumer = where
        self._seen: dict[str, int] = {}
        """At how many looks in a row each entry had not aged."""
        self._look_at = float("-inf")

    async def reclaim(self, most: int) -> list[Any]:
        """Take over so many such entries at most; most calls do not even look. Raises as `Store.run` does."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return []
        self._look_at = now + self._lease_s
        known = [entry for entry, looks in self._seen.items() if looks >= _LOOKS][:most]
        args: list[Argument] = [self._group, self._consumer, *known]
        claimed, others = await self._store.run("reclaim_ahead", [self._key], args)
        self._seen = {entry: self._seen.get(entry, 0) + 1 for entry in map(bytes.decode, others)}
        return list(claimed)
