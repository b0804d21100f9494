"""Which collection of the memory counts, and searches that miss nothing while another is being filled.

The alias `CURRENT` means the collection that counts. After a change of the embedding model that is still the earlier
model's: what it has is found by its words, beside what the model in use has, until the alias is switched.
"""

from collections.abc import Sequence
from time import monotonic

from pentad.shared.memory.forgotten import FORGOTTEN
from pentad.shared.vectors.points import Collection, Hit, in_rank_order
from pentad.shared.vectors.selection import Selection, SparseQuery, VectorQuery
from pentad.shared.vectors.vector_store import Vectors

CURRENT_ALIAS = "memory-current"
_LOOK_S = 5.0
"""How long it is believed which collection counts."""


def current_of(known: Sequence[Collection]) -> Collection | None:
    """The collection that counts; None: it was never said."""
    return next((each for each in known if CURRENT_ALIAS in each.aliases), None)


async def adopt_current(vectors: Vectors) -> Collection | None:
    """The collection that counts, said for good if it never was: then the one that has most. None: there is none."""
    known = [each for each in await vectors.collections() if each.name != FORGOTTEN]
    found = current_of(known)
    if found is None and known:
        found = max(known, key=lambda each: each.points)
        await vectors.switch(CURRENT_ALIAS, found.name)
    return found


class CurrentVectors:
    """Reads of one model's collection, which miss nothing that only the collection that counts has."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: Sequence[Collection] = ()
        self._looked_at = float("-inf")

    async def search(self, name: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """The hits of each query, see `Vectors`. Vectors of two models do not compare, words do."""
        earlier = await self.earlier(name)
        if earlier is None:
            return await self._vectors.search(name, queries)
        found = await self._vectors.search(name, queries) if self._has(name) else [[] for _ in queries]
        words = [query for query in queries if isinstance(query, SparseQuery)]
        more = iter(await self._vectors.search(earlier, words) if words else ())
        return [
            _joined(hits, next(more), query.limit) if isinstance(query, SparseQuery) else hits
            for query, hits in zip(queries, found, strict=True)
        ]

    async def count(self, name: str, selection: Selection) -> int:
        """How many points meet it: in that of both which has more, for one is filled from the other."""
        earlier = await self.earlier(name)
        if earlier is None:
            return await self._vectors.count(name, selection)
        here = await self._vectors.count(name, selection) if self._has(name) else 0
        return max(here, await self._vectors.count(earlier, selection))

    async def collections(self) -> list[Collection]:
        """All of them."""
        return await self._vectors.collections()

    async def earlier(self, name: str) -> str | None:
        """The collection that counts, if that is another one."""
        if monotonic() - self._looked_at > _LOOK_S:
            self._known = await self._vectors.collections()
            self._looked_at = monotonic()
        current = current_of(self._known)
        return current.name if current is not None and current.name != name else None

    def _has(self, name: str) -> bool:
        return any(each.name == name for each in self._known)


def _joined(hits: Sequence[Hit], more: Sequence[Hit], limit: int) -> list[Hit]:
    here = {hit.id for hit in hits}
    return in_rank_order([*hits, *(hit for hit in more if hit.id not in here)])[:limit]
