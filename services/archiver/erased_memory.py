"""What long-term memory has of what is erased, removed from every store of it, whatever model it was embedded with."""

from collections.abc import Sequence

from pentad.shared.graph.graph_store import Graph
from pentad.shared.owners import Owner
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors


class ErasedMemory:
    """Removes. Safe to repeat; raises ``MemoryOutageError`` while a store is away. ``graph``: None leaves it alone."""

    def __init__(self, vectors: Vectors, graph: Graph | None = None) -> None:
        self._vectors, self._graph = vectors, graph

    async def forget_tasks(self, tenant: str, tasks: Sequence[str]) -> None:
        """All that was said in these tasks, whoever's it is."""
        if tasks:
            await self._remove(Selection(Owner(tenant), Whose.ALL, tasks=tuple(tasks)))
        if self._graph is not None:
            for task in tasks:
                await self._graph.forget_task(tenant, task)

    async def forget_session(self, tenant: str, session: str, until: int) -> None:
        """All that was said in a session up to this time, in ms."""
        await self._remove(Selection(Owner(tenant), Whose.ALL, sessions=(session,), until=until + 1))

    async def forget_user(self, tenant: str, user: str, until: int, tasks: Sequence[str] = ()) -> None:
        """What is a user's up to this time, in ms. ``tasks``: of these alone.

        The graph has no times: without ``tasks`` it loses all that is this user's.
        """
        await self._remove(Selection(Owner(tenant, user), Whose.OWN, tasks=tuple(tasks), until=until + 1))
        if self._graph is not None and not tasks:
            await self._graph.forget_user(tenant, user)

    async def _remove(self, selection: Selection) -> None:
        for there in await self._vectors.collections():
            await self._vectors.delete(there.name, selection)
