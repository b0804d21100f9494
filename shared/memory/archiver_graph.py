"""The graph that an archiver has open, asked over Redis: the third adapter of the port `Graph`."""

from collections.abc import Sequence
from typing import Any

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.graph_limits import check_found, check_ids
from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.graph.merging import bare_of
from pentad.shared.memory.archiver_calls import TIMEOUT_S, ArchiverCalls
from pentad.shared.memory.graph_calls import CALLS, PREFIX
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store

_NODES_AT_ONCE = 25
"""Nodes of one call: each may rest on hundreds of statements, and an answer is written and read in an event loop."""
_OF_EARLIER = 2_000
"""Edges of nodes that an archiver of an earlier version is asked for: of more, the heaviest."""


class ArchiverGraph:
    """See `Graph`. ``timeout_s`` bounds a call; what is given is checked where the graph is."""

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._calls = ArchiverCalls(store, CALLS, "NEO4J_URI", timeout_s)

    async def prepare(self) -> None:
        await self._call("prepare")

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        await self._call("upsert_nodes", list(nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        await self._call("upsert_edges", list(edges))

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        check_ids(ids)
        wanted, found = list(dict.fromkeys(ids)), list[MemoryNode]()
        for begin in range(0, len(wanted), _NODES_AT_ONCE):
            found += await self._call("nodes", owner, wanted[begin : begin + _NODES_AT_ONCE])
        return sorted(found, key=lambda node: node.id)

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        found: list[MemoryEdge] = await self._call("edges", owner, list(ids), limit)
        return found

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        found: list[WalkedEdge] = await self._call("links", owner, list(ids), limit, list(types), as_of)
        return found

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        try:
            found: list[BareEdge] = await self._call("between", owner, list(ids), limit, list(types), as_of)
        except MemoryRefusedError:  # an archiver of an earlier version refuses what it does not know
            check_found(limit)
            edges = await self.edges(owner, ids, _OF_EARLIER)
            return [bare_of(edge) for edge in edges if _is_between(edge, ids, types, as_of)][:limit]
        return found

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        found: list[MemoryNode] = await self._call("named", owner, list(names))
        return found

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        await self._call("end", owner, list(ids), at)

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        await self._call("remove", owner, list(ids))

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        await self._call("retain", tenant, task, list(anchors))

    async def forget_task(self, tenant: str, task: str) -> None:
        await self._call("forget_task", tenant, task)

    async def forget_user(self, tenant: str, user: str) -> None:
        await self._call("forget_user", tenant, user)

    async def forget_tenant(self, tenant: str) -> None:
        await self._call("forget_tenant", tenant)

    async def tally(self, tenant: str) -> Tally:
        found: Tally = await self._call("tally", tenant)
        return found

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        found: list[MemoryNode] = await self._call("node_page", tenant, limit, after)
        return found

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        found: list[MemoryEdge] = await self._call("edge_page", tenant, limit, after)
        return found

    async def aclose(self) -> None:
        """Close the connection."""
        await self._calls.aclose()

    async def _call(self, call: str, *args: Any) -> Any:
        return await self._calls.make(f"{PREFIX}{call}", *args)


def _is_between(edge: MemoryEdge, ids: Sequence[str], types: Sequence[EdgeType], as_of: int | None) -> bool:
    begin, end = edge.true_from or 0, edge.true_until
    then = as_of is None or (begin <= as_of and (end is None or as_of < end))
    return edge.source in ids and edge.target in ids and (not types or edge.type in types) and then
