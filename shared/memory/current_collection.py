"""The current collection of the memory, and searches that miss nothing while another is being filled.

The alias `CURRENT_ALIAS` names the current collection. After a change of the embedding model it is still the earlier
model's: its points are found by their words, beside those of the model in use, until the alias is switched.
"""

from collections.abc import Sequence
from time import monotonic

from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.vectors.points import Collection, Hit, in_rank_order
from pentad.shared.vectors.selection import Selection, SparseQuery, VectorQuery
from pentad.shared.vectors.vector_store import Vectors

CURRENT_ALIAS = "memory-current"
_FRESH_S = 5.0
"""Seconds for which the known collections are believed."""


def current_of(known: Sequence[Collection]) -> Collection | None:
    """Return the current collection; None: it was never set."""
    return next((each for each in known if CURRENT_ALIAS in each.aliases), None)


async def adopt_current(vectors: Vectors) -> Collection | None:
    """Return the current collection; where none was set, set the one with most points. None: there is none."""
    known = [each for each in await vectors.collections() if each.name != FORGOTTEN]
    found = current_of(known)
    if found is None and known:
        found = max(known, key=lambda each: each.points)
        await vectors.switch(CURRENT_ALIAS, found.name)
    return found


class CurrentVectors:
    """Reads of one model's collection that also find what only the current collection has."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: Sequence[Collection] = ()
        self._looked_at = float("-inf")

    async def search(self, name: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """Return the hits of each query, see `Vectors`. Vectors of two models are not comparable, words are."""
        earlier = await self.earlier(name)
        if earlier is None:
            return await self._vectors.search(name, queries)
        found = await self._vectors.search(name, queries) if self._has(name) else [[] for _ in queries]
        words = [query for query in queries if isinstance(query, SparseQuery)]
        more = iter(await self._vectors.search(earlier, words) if words else ())
        return [
            _merged_hits(hits, next(more), query.limit) if isinstance(query, SparseQuery) else hits
            for query, hits in zip(queries, found, strict=True)
        ]

    async def count(self, name: str, selection: Selection) -> int:
        """Return how many points meet the selection: the larger number of both collections, as one is filled from the
        other."""
        earlier = await self.earlier(name)
        if earlier is None:
            return await self._vectors.count(name, selection)
        here = await self._vectors.count(name, selection) if self._has(name) else 0
        return max(here, await self._vectors.count(earlier, selection))

    async def collections(self) -> list[Collection]:
        """Return all collections."""
        return await self._vectors.collections()

    async def earlier(self, name: str) -> str | None:
        """Return the name of the current collection, if it is another one."""
        if monotonic() - self._looked_at > _FRESH_S:
            self._known = await self._vectors.collections()
            self._looked_at = monotonic()
        current = current_of(self._known)
        return current.name if current is not None and current.name != name else None

    def _has(self, name: str) -> bool:
        return any(each.name == name for each in self._known)


def _merged_hits(hits: Sequence[Hit], more: Sequence[Hit], limit: int) -> list[Hit]:
    here = {hit.id for hit in hits}
    return in_rank_order([*hits, *(hit for hit in more if hit.id not in here)])[:limit]
