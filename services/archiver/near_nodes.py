"""Nodes found by search: those near to a task, those that say the same as a new one; and writes of their points."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester, cache_of_task
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction import NearNode
from pentad.shared.memory.facts import raised_by_repetition
from pentad.shared.memory.nodes import NodePointWriter
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.owners import Owner
from pentad.shared.recall.terms import terms_of
from pentad.shared.segments.segment import Segment
from pentad.shared.vectors.points import Dense, Hit, collection_name
from pentad.shared.vectors.selection import DenseQuery, Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

MOST_NEAR = 12
"""Nodes that a model is shown beside a task."""
_MOST_COMPARED = 16
"""Segments of a task that are compared, the first of what its users said."""
_MOST_REWRITTEN = 1_000
"""Nodes of one task that are rewritten when messages leave it."""
_SAME_COSINE = 0.85
"""Cosine from which a node with the same words says the same."""


class NearNodes:
    """Searches and writes nodes. Methods raise ``MemoryOutageError`` while the store or the model is unavailable."""

    def __init__(self, vectors: Vectors, embedder: Embedder, graph: Graph) -> None:
        self._vectors, self._embedder = vectors, embedder
        self._points = NodePointWriter(vectors, embedder, graph)

    async def to(self, keys: TaskKeys, segments: Sequence[Segment]) -> list[NearNode]:
        """Return nodes near to the task, the nearest first, that all who speak in it may see."""
        holders = {segment.holder for segment in segments}
        owner = Owner.of_holder(keys.tenant, holders.pop() if len(holders) == 1 else None)
        texts = [each.text for each in segments if each.speaker != "assistant"][:_MOST_COMPARED]
        hits = [hit for found in await self._search(keys, owner, texts, Whose.SEEN, MOST_NEAR) for hit in found]
        best = {hit.id: hit for hit in sorted(hits, key=lambda hit: (hit.score, hit.id))}
        ranked = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))[:MOST_NEAR]
        return [NearNode(hit.id, hit.payload.owner.holder, hit.payload.type, hit.payload.text) for hit in ranked]

    async def same(self, keys: TaskKeys, nodes: Mapping[str, MemoryNode]) -> dict[str, str]:
        """Return, by the names of new nodes, ids of nodes of the same owner and kind with the same words in another
        order."""
        found: dict[str, str] = {}
        for name, node in nodes.items():
            [hits] = await self._search(keys, node.owner, [node.text], Whose.OWN, 3, node.kind.value)
            words = set(terms_of(node.text))
            alike = [hit for hit in hits if hit.score >= _SAME_COSINE and set(terms_of(hit.payload.text)) == words]
            if alike and alike[0].id != node.id:
                found[name] = alike[0].id
        return found

    async def write_points(self, keys: TaskKeys, session: str, nodes: Sequence[MemoryNode]) -> None:
        """Write the points of these nodes. ``keys``, ``session``: of the task in which they were found."""
        try:
            await self._points.write(nodes, session, _requester(keys, session))
        except ModelUnavailable as error:
            raise MemoryOutageError(str(error)) from error

    async def write_again(self, keys: TaskKeys, owner: Owner, ids: Sequence[str]) -> None:
        """Rewrite the points of these nodes, which this task has found to be no longer true."""
        try:
            await self._points.write_again(owner, ids, _requester(keys))
        except ModelUnavailable as error:
            raise MemoryOutageError(str(error)) from error

    async def remove(self, tenant: str, ids: Sequence[str]) -> None:
        """Remove the points of these nodes, whatever model embedded them."""
        for there in await self._vectors.collections():
            await self._vectors.delete(
                there.name, Selection(Owner(tenant), Whose.ALL, kinds=(NODE_KIND,), ids=tuple(ids))
            )

    async def write_those_of(self, keys: TaskKeys, session: str, graph: Graph) -> None:
        """Rewrite the points of nodes whose newest support was in this task; remove those of nodes that are gone."""
        chosen = Selection(Owner(keys.tenant), Whose.ALL, kinds=(NODE_KIND,), tasks=(keys.task,))
        for there in await self._vectors.collections():
            page = await self._vectors.scroll(there.name, chosen, _MOST_REWRITTEN)
            owners = {point.id: point.payload.owner for point in page.points}
            left: set[str] = set()
            for owner in set(owners.values()):
                nodes = await graph.nodes(owner, [name for name, whose in owners.items() if whose == owner])
                await self.write_points(keys, session, nodes)
                left |= {node.id for node in nodes}
            gone = tuple(sorted(owners.keys() - left))
            await self._vectors.delete(there.name, Selection(Owner(keys.tenant), Whose.ALL, ids=gone))

    async def _search(
        self, keys: TaskKeys, owner: Owner, texts: Sequence[str], whose: Whose, limit: int, kind: str = ""
    ) -> list[list[Hit]]:
        if not texts:
            return []
        collection, vectors = await self._embedded(texts, _requester(keys))
        await self._vectors.prepare(collection, len(vectors[0]))
        chosen = Selection(owner, whose, kinds=(NODE_KIND,), types=(kind,) if kind else ())
        queries = [DenseQuery(tuple(vector), Dense.TEXT, chosen, limit) for vector in vectors]
        return await self._vectors.search(collection, queries)

    async def _embedded(self, texts: Sequence[str], requester: Requester) -> tuple[str, list[list[float]]]:
        try:
            found = await self._embedder.embed(texts, requester)
        except ModelUnavailable as error:
            raise MemoryOutageError(str(error)) from error
        return collection_name(found.model, len(found.vectors[0])), found.vectors


def _requester(keys: TaskKeys, session: str = "memory") -> Requester:
    """Return a requester whose vectors are cached for this task alone, as nodes of many owners are embedded for it."""
    return Requester(keys.shard, keys.tenant, session, task=keys.task, cached_for=cache_of_task(keys.task))


async def consolidate(graph: Graph, owner: Owner, written: Sequence[MemoryNode]) -> list[MemoryNode]:
    """Raise the importance of nodes that other tasks say too; return the nodes as they are now.

    ``written``: by one task, of this owner. They are written with that task's supports alone, since another task may be
    erased meanwhile. Raises ``MemoryOutageError``.
    """
    own = {node.id: node for node in written}
    there = {node.id: node for node in await graph.nodes(owner, list(own))}
    grown = raised_by_repetition(written, list(there.values()))
    if grown:
        await graph.upsert_nodes([replace(node, supports=own[node.id].supports) for node in grown])
    return list((there | {node.id: node for node in grown}).values())
