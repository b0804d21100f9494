"""The port `Graph`: stores of the graph."""

from collections.abc import Sequence
from typing import Protocol

from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.owners import Owner


class Graph(Protocol):
    """Nodes and edges of all tenants; each call is about one tenant.

    Each method raises ``MemoryRefusedError`` for requests that can never succeed, before anything is written, and
    ``MemoryOutageError`` when the store does not answer in time. A write may have been made then; repeating it has the
    same effect. A call that writes does all of it or nothing. Writes are merged with what exists (`merging`): repeated,
    late or in another order, they have the same result. An owner sees its own nodes and edges, and shared ones.
    """

    async def prepare(self) -> None:
        """Make sure that the store's tables, constraints and indexes exist."""
        ...

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        """Write nodes. Refuses an id that another owner of the tenant has: nothing is merged across owners."""
        ...

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        """Write edges. Refuses an edge whose ends do not exist or are hidden from its owner: write the nodes first."""
        ...

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        """Return the nodes with these ids that this owner sees, in the order of their ids."""
        ...

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        """Return edges from or to these nodes, the heaviest first; equal ones in the order of their ends and types."""
        ...

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        """Return edges from or to these nodes without their supports, the heaviest first.

        ``types``: only edges of these types; none for all. ``as_of``: only edges that were true at that time.
        """
        ...

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        """Return edges whose ends are both among these nodes, the heaviest first, each owner's separately.

        ``types`` and ``as_of`` are as for `links`.
        """
        ...

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        """Return nodes whose text is one of these names in any spelling (`merging.normal_name`), by their ids."""
        ...

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        """Mark nodes that the owner sees as no longer true from this time on, or from an earlier one that is known."""
        ...

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        """Remove nodes that the owner sees, with their edges."""
        ...

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        """Keep only these statements of a task; remove its others, and all that rested on them alone."""
        ...

    async def forget_task(self, tenant: str, task: str) -> None:
        """Remove the statements of a task, and every node and edge that rested on nothing else."""
        ...

    async def forget_user(self, tenant: str, user: str) -> None:
        """Remove a user's nodes, edges and statements, and all that rested on nothing else."""
        ...

    async def forget_tenant(self, tenant: str) -> None:
        """Remove all nodes and edges of a tenant."""
        ...

    async def tally(self, tenant: str) -> Tally:
        """Return the number of a tenant's nodes and edges, of all owners."""
        ...

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        """Return the next nodes of a tenant, of all owners, by their ids: for operators, not for showing."""
        ...

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        """Return the next edges of a tenant, by `merging.edge_key`, which also says where a page begins."""
        ...

    async def aclose(self) -> None:
        """Close the store; later calls raise ``MemoryOutageError``. Safe to call twice."""
        ...
