"""The port of the stores of the graph."""

from collections.abc import Sequence
from typing import Protocol

from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.owners import Owner


class Graph(Protocol):
    """Nodes and edges of all tenants; each question is about one.

    Each method raises ``MemoryRefusedError`` for what can never be done, before anything is written, and
    ``MemoryOutageError`` when the store does not do it in time; a write may have been made then, and is made again with
    the same effect. A call that writes does all of it or nothing. Writes join what is there (`merging`): repeated, late
    and in another order they end the same. An owner that asks sees what is his and what is nobody's.
    """

    async def prepare(self) -> None:
        """Make sure that the store's tables, constraints and indexes are there."""
        ...

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        """Write nodes. Refuses an id that another owner of the tenant has: nothing merges across owners."""
        ...

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        """Write edges. Refuses one whose ends are not there, or not for its owner to see: write the nodes before."""
        ...

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        """Those that are there and that this owner sees, in the order of their ids."""
        ...

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        """Edges from or to these nodes, the heaviest first; equal ones in the order of their ends and types."""
        ...

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        """The same without what they rest on. ``types``: none for all; ``as_of``: what was true at that time alone."""
        ...

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        """Edges whose ends are both among these nodes, the heaviest first, each owner's by itself; else as `links`."""
        ...

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        """Nodes whose text is one of these names, however it is written (`merging.normal_name`); by their ids."""
        ...

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        """These nodes that the owner sees are true no more from this time on, or from an earlier one that is known."""
        ...

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        """Remove these nodes that the owner sees, with their edges."""
        ...

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        """Of what was said in a task keep these statements; take away the others, and what rested on them alone."""
        ...

    async def forget_task(self, tenant: str, task: str) -> None:
        """Take away what was said in a task, and every node and edge that rested on nothing else."""
        ...

    async def forget_user(self, tenant: str, user: str) -> None:
        """Remove what is this user's, take away what he said, and what rested on nothing else."""
        ...

    async def forget_tenant(self, tenant: str) -> None:
        """Remove all that is this tenant's."""
        ...

    async def tally(self, tenant: str) -> Tally:
        """How much a tenant has, whoever's it is."""
        ...

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        """The next nodes of a tenant, whoever's they are, in the order of their ids: for operators, not for showing."""
        ...

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        """The next edges of a tenant, in the order of `merging.edge_key`, which is also where the next page begins."""
        ...

    async def aclose(self) -> None:
        """Close it; what is asked afterwards raises ``MemoryOutageError``. Safe to call twice."""
        ...
