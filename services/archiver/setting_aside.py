"""What cannot be read of the embedded stores is found, and set aside: a rebuild begins with stores that can be read.

It is renamed and kept, for a person to look at and to remove; at most one of each part of a store. Nothing of a Qdrant
or a Neo4j is set aside: whoever runs the server mends or empties it.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pentad.services.archiver.damage_watch import damage_of
from pentad.shared.errors import MemoryDamagedError, MemoryNewerError
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.immutable import immutable
from pentad.shared.vectors.vector_store import EmbeddedVectors, Vectors

if TYPE_CHECKING:
    from pentad.shared.graph.neo4j_graph import Neo4jGraph

log = logging.getLogger(__name__)


@immutable
class UnreadablePart:
    """What cannot be read of a store."""

    part: str | None
    """Of the store of vectors; None: it is the file of the graph."""
    why: str


class SettingAside:
    """All raise ``MemoryOutageError`` while a store is away."""

    def __init__(self, vectors: Vectors, graph: "SqliteGraph | Neo4jGraph") -> None:
        self._vectors = vectors if isinstance(vectors, EmbeddedVectors) else None
        self._graph = graph if isinstance(graph, SqliteGraph) else None

    async def unreadable(self) -> list[UnreadablePart]:
        """Read all of the embedded stores; what cannot be read. Raises ``MemoryNewerError`` for a newer version's."""
        found = await self._unread(self._vectors) if self._vectors is not None else []
        if self._graph is not None and (why := await self._why_damaged(self._graph)) is not None:
            found.append(UnreadablePart(None, why))
        return found

    async def set_aside(self, found: Sequence[UnreadablePart]) -> None:
        """Rename these. Raises ``MemoryDamagedError`` while an earlier one is in the way, and says what to do."""
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
