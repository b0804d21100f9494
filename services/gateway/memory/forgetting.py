"""Forgetting of memories by clients, and undoing within a day of what a model had forgotten.

No search finds forgotten memories, and they never come back by themselves.
"""

from collections.abc import Sequence

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import LAST_MS, shard_in
from pentad.contracts.memories import MemoryKind
from pentad.contracts.streams import EXTRACT
from pentad.services.gateway.domain.forget_request import ForgetRequest, is_meant
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.memory.statements import KnowledgeEdits
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import erased_users, mark_at
from pentad.shared.graph.graph_store import Graph
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgetting import Forgetter, ask_to_remember, drop_undoable, read_undoable
from pentad.shared.memory.forgotten import remove_notes
from pentad.shared.memory.forgotten_notes import ForgottenNote, hand_over
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.statements import is_episode, is_statement
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_PAGE = 1000
"""Points that one request looks at."""
_NODES = 200
"""Nodes that one request looks at: each comes with all its statements."""
_GRAPH = "known"
"""Name of the graph in a cursor, where other cursors name a collection. No collection has this name."""


@immutable
class ForgottenPage:
    """The result of one request to forget."""

    forgotten: int
    next: str | None
    """Cursor for the next request; None if there is no more."""


class Forgetting:
    """Forgets memories. Raises ``OutageError`` if a store is unavailable: a repeated request continues."""

    def __init__(self, store: Store, vectors: Vectors, graph: Graph, shards: int) -> None:
        self._vectors, self._graph = vectors, graph
        self._forgetter = Forgetter(store, vectors, graph, shards)

    async def forget(self, tenant: str, asked: ForgetRequest) -> ForgottenPage:
        """Forget those of the next points of a collection, or of the next nodes, that meet the request."""
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
        """Forget memories of the next piece of a place; return their number, and the position of the next piece."""
        if place == _GRAPH:
            return await self._forget_nodes(tenant, asked, after)
        return await self._forget_points(tenant, place, asked, after)

    async def _forget_points(
        self, tenant: str, name: str, asked: ForgetRequest, after: str | None
    ) -> tuple[int, str | None]:
        """Forget points of a collection."""
        page = await self._vectors.scroll(name, _selection(tenant, asked), _PAGE, after)
        meant = [point for point in page.points if asked.means_importance(point.payload.importance)]
        await self._forgetter.found(tenant, meant)
        return len(meant), page.next

    async def _forget_nodes(self, tenant: str, asked: ForgetRequest, after: str | None) -> tuple[int, str | None]:
        """Forget nodes of the graph, even those that no search finds."""
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
    """Return the graph if its nodes are to be forgotten.

    Nodes from a task go by themselves once knowledge is taken from it again without its forgotten segments.
    """
    follows = asked.task is not None and asked.kind is None and not is_statement(asked.task)
    return () if asked.kind is MemoryKind.EPISODIC or follows else (_GRAPH,)


def _selection(tenant: str, asked: ForgetRequest) -> Selection:
    """Return the points to look at. Points of nodes are selected only by id: all other nodes are found in the graph."""
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


class ForgettingUndo:
    """Undoes forgetting by models. Raises ``ProblemError``, and ``OutageError`` in an outage: try again to continue."""

    def __init__(self, store: Store, records: Records, vectors: Vectors, noting: KnowledgeEdits, shards: int) -> None:
        self._store, self._records, self._vectors = store, records, vectors
        self._noting, self._shards = noting, shards

    async def undo(self, tenant: str, anchor: str, user: str | None) -> int:
        """Restore memories that a model had forgotten at an anchor, of one user if given; return their number."""
        noted = await read_undoable(self._store, tenant, anchor)
        mine = [note for note in noted if user is None or note.point.payload.owner.user == user]
        notes = [note for note in mine if not await self._is_erased(tenant, note)]
        if not notes:
            raise missing(
                "no model has had anything forgotten at this anchor within the last day, or it is undone already"
            )
        await hand_over(self._store, [Point(note.point.id, note.point.payload) for note in notes], taken_back=True)
        await remove_notes(self._vectors, tenant, [note.point.id for note in notes])
        for task in sorted({note.point.payload.task for note in notes}):
            await self._come_back(tenant, task)
        await drop_undoable(self._store, tenant, anchor, notes)
        return len({note.point.payload.anchor for note in notes})

    async def _is_erased(self, tenant: str, note: ForgottenNote) -> bool:
        """Return whether the task or user of a note was erased since: an erasure is never undone."""
        kept = note.point.payload
        shard = shard_in(kept.task, self._shards)
        if shard is None:
            return True
        mark = await mark_at(self._store, TaskKeys(shard, tenant, kept.task).erased)
        users: Sequence[str] = () if kept.owner.user is None else (kept.owner.user,)
        marks = await erased_users(self._store, shard, tenant, set(users))
        return (mark is not None and note.noted_at <= mark.at) or any(note.noted_at <= at for at in marks.values())

    async def _come_back(self, tenant: str, task: str) -> None:
        """Write the memories of a task, and the knowledge from it, again."""
        keys = TaskKeys(shard_in(task, self._shards) or 0, tenant, task)
        record = await self._records.read(tenant, task)
        if record is not None and is_statement(task) and not is_episode(record):
            await self._noting.write_again(record)
            return
        await ask_to_remember(self._store, keys)
        if record is not None and record.extraction is not None:
            wake_up = WakeUp(actor=keys.actor)  # an archiver writes the answer that is kept, and asks no model
            await self._store.call("XADD", EXTRACT.key(keys.shard), "*", "data", wake_up.to_json())
            metrics.published.labels(EXTRACT.name, WakeUp.__name__).inc()
