"""Damage of the memory's stores: noticing data that is missing or unreadable, and setting unreadable parts aside.

An unreadable part of an embedded store is renamed and kept, for a person to look at and to remove; at most one of each
part. Nothing of a Qdrant or Neo4j server is set aside: whoever runs the server repairs or empties it.
"""

import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from pentad.shared import metrics
from pentad.shared.errors import MemoryDamagedError, MemoryNewerError, MemoryOutageError, OutageError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.immutable import immutable
from pentad.shared.memory.memory_counts import GRAPH, MEND, VECTORS, Damage, MemoryCounts
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.vectors.points import Collection
from pentad.shared.vectors.vector_store import EmbeddedVectors, Vectors

if TYPE_CHECKING:
    from pentad.shared.graph.neo4j_graph import Neo4jGraph


T = TypeVar("T")

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_COUNT_INTERVAL_FACTOR = 100
"""At most one of this many moments is spent on counting the nodes of the graph."""
_CHECK_S = 3600.0
"""Seconds between checks of the whole file of the graph."""
_READS_PER_LOOK = 4
"""Reads of the embedded store of vectors at each look, which together go through all of it."""


class DamageWatch:
    """Looks for damage at every look at the stores. All methods raise ``OutageError`` while a store is unavailable."""

    def __init__(self, counts: MemoryCounts, vectors: Vectors, graph: "SqliteGraph | Neo4jGraph") -> None:
        self._counts, self._vectors, self._graph = counts, vectors, graph
        self._count_at = self._checked_at = float("-inf")
        self._unread: list[str] = []
        """Parts of the store of vectors that are still to be read in this round."""
        self._cursor: str | None = None
        self._is_clean_round = True
        self.damages: Sequence[Damage] = ()
        """The damages that were seen last."""

    async def watched(self, store: str, work: Awaitable[T]) -> T:
        """Await work on a store; damage is reported, and raised with advice."""
        try:
            return await work
        except MemoryDamagedError as error:
            raise await self._noticed(store, error) from None

    async def stumbled(self, store: str, error: MemoryDamagedError) -> None:
        """Report damage that another caller has met. Never raises: what cannot be reported now is found by a later
        look."""
        if store == VECTORS:
            self._is_clean_round = False
        if not any(damage.store == store for damage in self.damages):
            with suppress(OutageError):
                await self._noticed(store, error)

    async def look_at_vectors(self) -> Sequence[Collection]:
        """Compare the numbers of points; return the collections. Raises ``MemoryDamagedError``."""
        before = await self._counts.kept()
        found = await self.watched(VECTORS, self._vectors.collections())
        await self._counts.compare_points(before, {each.name: each.points for each in found})
        await self._tell()
        return found

    async def read_vectors(self) -> None:
        """Read the next points of an embedded store, so that unreadable data is found without a search for it.

        What cannot be read is met again at the next call. Raises ``MemoryDamagedError``, which says what to do.
        """
        if not isinstance(self._vectors, EmbeddedVectors):
            return
        for _ in range(_READS_PER_LOOK):
            if not self._unread:
                self._unread, self._cursor = await self._vectors.parts(), None
                self._is_clean_round = True
            self._cursor = await self.watched(VECTORS, self._vectors.read_part(self._unread[0], self._cursor))
            if self._cursor is None:
                self._unread.pop(0)
            if not self._unread:
                break
        if not self._unread and self._is_clean_round:
            await self._counts.unreadable(VECTORS, None)
            await self._tell()

    async def look_at_graph(self) -> None:
        """Compare the numbers of nodes and edges, and check the file, each when it is due."""
        if monotonic() < self._count_at:
            return
        try:
            await self._check()
            began, before = monotonic(), await self._counts.kept()
            found = await self.watched(GRAPH, self._graph.condition())
            await self._counts.compare_graph(before, found)
        finally:
            await self._tell()
        self._count_at = monotonic() + _COUNT_INTERVAL_FACTOR * (monotonic() - began)

    async def rebuilt(self) -> None:
        """Store what a rebuilt memory has as what was written to it."""
        found = await self._vectors.collections()
        await self._counts.rebuilt({each.name: each.points for each in found}, await self._graph.condition())
        self._unread, self._checked_at = [], float("-inf")
        await self._tell()

    async def _check(self) -> None:
        """Check the whole file. A file that takes too long, or is busy, is not damaged."""
        if not isinstance(self._graph, SqliteGraph) or monotonic() - self._checked_at < _CHECK_S:
            return
        try:
            mistakes = await self.watched(GRAPH, self._graph.mistakes())
        except MemoryDamagedError:
            raise
        except MemoryOutageError as error:
            _say.warning("check", "the graph was not checked: %s", error)
            return
        self._checked_at = monotonic()
        if mistakes:
            await self._counts.unreadable(GRAPH, f"{damage_of(self._graph, mistakes)}: {MEND}")
        else:
            await self._counts.unreadable(GRAPH, None)

    async def _noticed(self, store: str, error: MemoryDamagedError) -> MemoryDamagedError:
        """Report damage; return the error with advice."""
        why = str(error)
        if not isinstance(error, MemoryNewerError) and not why.endswith(MEND):
            why = f"{why}: {MEND}"
        if store == GRAPH:
            self._checked_at = float("-inf")
        await self._counts.unreadable(store, why)
        await self._tell()
        return type(error)(why)

    async def _tell(self) -> None:
        before, self.damages = self.damages, await self._counts.damages()
        for damage in self.damages:
            if damage not in before:
                log.error("%s: %s", damage.what, damage.do)
        for store in (VECTORS, GRAPH):
            metrics.memory_damaged.labels(store).set(any(damage.store == store for damage in self.damages))


def damage_of(graph: SqliteGraph, mistakes: Sequence[str]) -> str:
    """Describe what SQLite found wrong with the file."""
    return f"the graph in {graph.place} is damaged ({'; '.join(mistakes)})"


@immutable
class UnreadablePart:
    """A part of a store that cannot be read."""

    part: str | None
    """Part of the store of vectors; None: it is the file of the graph."""
    why: str


class DamagedParts:
    """Finds unreadable parts and sets them aside. All methods raise ``MemoryOutageError`` while a store is down."""

    def __init__(self, vectors: Vectors, graph: "SqliteGraph | Neo4jGraph") -> None:
        self._vectors = vectors if isinstance(vectors, EmbeddedVectors) else None
        self._graph = graph if isinstance(graph, SqliteGraph) else None

    async def unreadable(self) -> list[UnreadablePart]:
        """Read all of the embedded stores; return what cannot be read.

        Raises ``MemoryNewerError`` for a store of a newer version.
        """
        found = await self._unread(self._vectors) if self._vectors is not None else []
        if self._graph is not None and (why := await self._why_damaged(self._graph)) is not None:
            found.append(UnreadablePart(None, why))
        return found

    async def set_aside(self, found: Sequence[UnreadablePart]) -> None:
        """Rename these parts. Raises ``MemoryDamagedError`` while an earlier one is in the way, and says what to do."""
        for each in found:
            if each.part is None:
                assert self._graph is not None, "what was found there is a file"
                place = await self._graph.set_aside()
            else:
                assert self._vectors is not None, "what was found there is embedded"
                place = await self._vectors.set_aside(each.part)
            log.error("set aside as %s, which is yours to look at and to remove: %s", place, each.why)

    async def _unread(self, vectors: EmbeddedVectors) -> list[UnreadablePart]:
        whys = [(part, await self._why_unread(vectors, part)) for part in await vectors.parts()]
        return [UnreadablePart(part, why) for part, why in whys if why is not None]

    @staticmethod
    async def _why_unread(vectors: EmbeddedVectors, part: str) -> str | None:
        cursor: str | None = None
        while True:
            try:
                cursor = await vectors.read_part(part, cursor)
            except MemoryDamagedError as error:
                return str(error)
            if cursor is None:
                return None

    @staticmethod
    async def _why_damaged(graph: SqliteGraph) -> str | None:
        try:
            mistakes = await graph.mistakes()
        except MemoryNewerError:
            raise
        except MemoryDamagedError as error:
            return str(error)
        return damage_of(graph, mistakes) if mistakes else None
