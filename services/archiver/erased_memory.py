"""Removes what is erased from every store of the long-term memory, whatever model embedded it."""

from collections.abc import Sequence

from pentad.contracts.ids import ANY_SHARD, shard_in
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN_KIND
from pentad.shared.memory.points import SEGMENT_KIND, TASK_KIND
from pentad.shared.owners import Owner
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_SAID_KINDS = (SEGMENT_KIND, TASK_KIND, FORGOTTEN_KIND)
"""Kinds of points of what was said; points of nodes go with their nodes."""
_MEMORY_SESSION = "memory"


class Known:
    """Removes nodes from the graph and from searches. Safe to repeat; raises ``MemoryOutageError``."""

    def __init__(self, graph: Graph, near: NearNodes) -> None:
        self._graph, self._near = graph, near

    async def forget_task(self, tenant: str, task: str) -> None:
        """Remove a task's statements and what rested on them alone; other nodes are found by their other statements."""
        await self._graph.forget_task(tenant, task)
        keys = TaskKeys(shard_in(task, ANY_SHARD) or 0, tenant, task)
        await self._near.write_those_of(keys, _MEMORY_SESSION, self._graph)

    async def stay_forgotten(self, keys: TaskKeys, nodes: Sequence[MemoryNode]) -> None:
        """Remove what was written of a task while it was being forgotten: nodes that rest on it alone."""
        for owner in {node.owner for node in nodes}:
            there = await self._graph.nodes(owner, [node.id for node in nodes if node.owner == owner])
            alone = [node.id for node in there if {support.task for support in node.supports} == {keys.task}]
            if alone:
                await self._near.remove(keys.tenant, alone)
                await self._graph.remove(owner, alone)

    async def forget_user(self, tenant: str, user: str) -> None:
        """Remove all nodes of a user, of any time: the graph has no times."""
        await self._graph.forget_user(tenant, user)


class ErasedMemory:
    """Removes points and nodes. Safe to repeat; raises ``MemoryOutageError`` while a store is unavailable.

    ``known``: None leaves the graph alone.
    """

    def __init__(self, vectors: Vectors, known: Known | None = None) -> None:
        self._vectors, self._known = vectors, known

    async def forget_tasks(self, tenant: str, tasks: Sequence[str]) -> None:
        """Remove all that was said in these tasks, of all owners."""
        if tasks:
            await self._remove(Selection(Owner(tenant), Whose.ALL, kinds=_SAID_KINDS, tasks=tuple(tasks)))
        if self._known is not None:
            for task in tasks:
                await self._known.forget_task(tenant, task)

    async def forget_session(self, tenant: str, session: str, until: int) -> None:
        """Remove all that was said in a session up to this time, in ms."""
        chosen = Selection(Owner(tenant), Whose.ALL, kinds=_SAID_KINDS, sessions=(session,), until=until + 1)
        await self._remove(chosen)

    async def forget_user(self, tenant: str, user: str, until: int, tasks: Sequence[str] = ()) -> None:
        """Remove a user's points up to this time, in ms. ``tasks``: only in these.

        The graph has no times: without ``tasks`` it loses all that is this user's.
        """
        await self._remove(Selection(Owner(tenant, user), Whose.OWN, tasks=tuple(tasks), until=until + 1))
        if self._known is not None and not tasks:
            await self._known.forget_user(tenant, user)

    async def _remove(self, selection: Selection) -> None:
        for there in await self._vectors.collections():
            await self._vectors.delete(there.name, selection)
