"""Notices when a store of the memory has less than was written to it, or cannot be read, and says what to do."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from pentad.shared import metrics
from pentad.shared.errors import MemoryDamagedError, MemoryOutageError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.memory_counts import GRAPH, VECTORS, Damage, MemoryCounts
from pentad.shared.seldom import Seldom
from pentad.shared.vectors.points import Collection
from pentad.shared.vectors.vector_store import Vectors

if TYPE_CHECKING:
    from pentad.shared.graph.neo4j_graph import Neo4jGraph

log = logging.getLogger(__name__)
_say = Seldom(log)

_SHARE = 100
"""Of this many moments one is spent on counting the nodes of the graph, at most."""
_CHECK_S = 3600.0
"""How often the whole file of the graph is checked."""
_MEND = "stop the archiver, move {} away, start it again and run `pentad memory rebuild`"
"""What to do about a file that cannot be read."""


class DamageWatch:
    """Is asked at every look at the stores. All raise ``OutageError`` while a store is away."""

    def __init__(
        self, counts: MemoryCounts, vectors: Vectors, graph: "SqliteGraph | Neo4jGraph", vectors_place: str
    ) -> None:
        """``vectors_place``: where the store of vectors is, for a person."""
        self._counts, self._vectors, self._graph, self._vectors_place = counts, vectors, graph, vectors_place
        self._count_at = self._checked_at = float("-inf")
        self.damages: Sequence[Damage] = ()
        """What is wrong, as was seen last."""

    async def open_vectors(self, opening: Callable[[], Awaitable[None]]) -> None:
        """Open a store of vectors, and compare what it has before anything is written to it.

        Raises ``MemoryDamagedError``, which says what to do.
        """
        try:
            await opening()
        except MemoryDamagedError as error:
            raise await self._damaged_vectors(error) from None
        await self.look_at_vectors()

    async def look_at_vectors(self) -> Sequence[Collection]:
        """Compare how many points there are; returns the collections. Raises ``MemoryDamagedError``, likewise."""
        before = await self._counts.kept()
        try:
            found = await self._vectors.collections()
        except MemoryDamagedError as error:
            raise await self._damaged_vectors(error) from None
        await self._counts.compare_points(before, {each.name: each.points for each in found})
        await self._counts.unreadable(VECTORS, None)
        await self._tell()
        return found

    async def look_at_graph(self) -> None:
        """Compare how many nodes and edges there are, and have the file checked, each when it is time."""
        if monotonic() < self._count_at:
            return
        try:
            await self._check()
            began, before = monotonic(), await self._counts.kept()
            await self._counts.compare_graph(before, await self._graph.condition())
        except MemoryDamagedError as error:
            await self._damaged_graph(str(error))
            raise
        finally:
            await self._tell()
        self._count_at = monotonic() + _SHARE * (monotonic() - began)

    async def rebuilt(self) -> None:
        """The memory was rebuilt: what it has now is what was written to it."""
        found = await self._vectors.collections()
        await self._counts.rebuilt({each.name: each.points for each in found}, await self._graph.condition())
        await self._tell()

    async def _check(self) -> None:
        """Read the whole file. One that takes too long, or is busy, is not damaged."""
        if not isinstance(self._graph, SqliteGraph) or monotonic() - self._checked_at < _CHECK_S:
            return
        try:
            mistakes = await self._graph.mistakes()
        except MemoryDamagedError:
            raise
        except MemoryOutageError as error:
            _say.warning("check", "the graph was not checked: %s", error)
            return
        self._checked_at = monotonic()
        if mistakes:
            await self._damaged_graph(f"the graph in {self._graph.place} is damaged ({'; '.join(mistakes)})")
        else:
            await self._counts.unreadable(GRAPH, None)

    async def _damaged_vectors(self, error: MemoryDamagedError) -> MemoryDamagedError:
        why = f"{error}: {_MEND.format(self._vectors_place)}"
        await self._counts.unreadable(VECTORS, why)
        await self._tell()
        return MemoryDamagedError(why)

    async def _damaged_graph(self, what: str) -> None:
        place = self._graph.place if isinstance(self._graph, SqliteGraph) else "its data"
        await self._counts.unreadable(GRAPH, f"{what}: {_MEND.format(place)}")

    async def _tell(self) -> None:
        before, self.damages = self.damages, await self._counts.damages()
        for damage in self.damages:
            if damage not in before:
                log.error("%s: %s", damage.what, damage.do)
        for store in (VECTORS, GRAPH):
            metrics.memory_damaged.labels(store).set(any(damage.store == store for damage in self.damages))
