"""Clients have memories forgotten, what was said and what is known: no search finds them, and none comes back."""

from collections.abc import Sequence

from pentad.contracts.ids import LAST_MS
from pentad.contracts.memories import MemoryKind
from pentad.services.gateway.domain.forget_request import ForgetRequest, is_meant
from pentad.services.gateway.edge.problems import invalid
from pentad.shared.graph.graph_store import Graph
from pentad.shared.immutable import immutable
from pentad.shared.memory.forgetter import Forgetter
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.statements import is_statement
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_PAGE = 1000
"""Points that one request looks at."""
_NODES = 200
"""Nodes, likewise: each comes with all that it rests on."""
_KNOWN = "known"
"""Where a cursor names a collection, the graph; no collection is called so."""


@immutable
class ForgottenPage:
    """What one request has done."""

    forgotten: int
    next: str | None
    """Where the next one goes on; None: there is no more."""


class Forgetting:
    """Raises ``OutageError`` while a store is away: asked again, it goes on."""

    def __init__(self, store: Store, vectors: Vectors, graph: Graph, shards: int) -> None:
        self._vectors, self._graph = vectors, graph
        self._forgetter = Forgetter(store, vectors, graph, shards)

    async def forget(self, tenant: str, asked: ForgetRequest) -> ForgottenPage:
        """Forget what is meant among the next points of a collection, or the next nodes."""
        places = [*(await self._forgetter.collections() if _asks_points(asked) else ()), *_graph_asked(asked)]
        if not places:
            return ForgottenPage(0, None)
        place, after = asked.cursor or (places[0], None)
        if place not in places:
            raise invalid("cursor: what it names is not there any more; begin again without it")
        others = iter(places[places.index(place) + 1 :])
        done = 0
        while True:
            forgotten, after = await self._forget(tenant, place, asked, after)
            done += forgotten
            if after is not None:
                return ForgottenPage(done, f"{place}:{after}")
            place = next(others, "")
            if not place or asked.ids is None:  # ids are few wherever they are
                return ForgottenPage(done, f"{place}:" if place else None)

    async def _forget(self, tenant: str, place: str, asked: ForgetRequest, after: str | None) -> tuple[int, str | None]:
        """How many were meant of the next of a place, and where the next ones begin."""
        if place == _KNOWN:
            return await self._known(tenant, asked, after)
        return await self._found(tenant, place, asked, after)

    async def _found(self, tenant: str, name: str, asked: ForgetRequest, after: str | None) -> tuple[int, str | None]:
        """In a collection of points."""
        page = await self._vectors.scroll(name, _selection(tenant, asked), _PAGE, after)
        meant = [point for point in page.points if asked.means_importance(point.payload.importance)]
        await self._forgetter.found(tenant, meant)
        return len(meant), page.next

    async def _known(self, tenant: str, asked: ForgetRequest, after: str | None) -> tuple[int, str | None]:
        """In the graph, also what no search finds."""
        if asked.ids is not None:
            page = await self._graph.nodes(Owner(tenant, asked.user), asked.ids)
        else:
            page = await self._graph.node_page(tenant, _NODES, after or "")
        meant = [node for node in page if is_meant(node, asked)]
        await self._forgetter.nodes(tenant, meant)
        return len(meant), page[-1].id if asked.ids is None and len(page) == _NODES else None


def _asks_points(asked: ForgetRequest) -> bool:
    return asked.ids is not None or asked.kind is not MemoryKind.SEMANTIC


def _graph_asked(asked: ForgetRequest) -> Sequence[str]:
    """What is known from a task goes by itself, when that is learned from without what was said."""
    follows = asked.task is not None and asked.kind is None and not is_statement(asked.task)
    return () if asked.kind is MemoryKind.EPISODIC or follows else (_KNOWN,)


def _selection(tenant: str, asked: ForgetRequest) -> Selection:
    """Points of nodes are looked for by their ids alone: all others have the graph to be found in."""
    kinds = (asked.kind.value,) if asked.kind else (SEGMENT_KIND, NODE_KIND)
    return Selection(
        Owner(tenant, asked.user),
        Whose.OWN if asked.user else Whose.ALL,
        kinds=kinds if asked.ids is not None else (SEGMENT_KIND,),
        tasks=(asked.task,) if asked.task else (),
        since=asked.since,
        until=None if asked.until is None else min(asked.until, LAST_MS),
        ids=asked.ids,
    )
