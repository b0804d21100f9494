"""Clients have memories forgotten, what was said and what is known, and undo within a day what a model had forgotten.

No search finds what is forgotten, and none comes back by itself.
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


class ForgettingUndo:
    """Raises ``ProblemError``, and ``OutageError`` while a store is away: asked again, it goes on."""

    def __init__(
        self, store: Store, records: Records, vectors: Vectors, noting: KnowledgeEdits, shards: int, *, extracts: bool
    ) -> None:
        """``extracts``: archivers write what models have extracted; else that comes back with the next rebuild."""
        self._store, self._records, self._vectors = store, records, vectors
        self._noting, self._shards, self._extracts = noting, shards, extracts

    async def undo(self, tenant: str, anchor: str, user: str | None) -> int:
        """How many memories come back that a model had forgotten at this anchor. ``user``: of this one alone."""
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
        """Whether what it is about was erased since: that is undone by nobody."""
        kept = note.point.payload
        shard = shard_in(kept.task, self._shards)
        if shard is None:
            return True
        mark = await mark_at(self._store, TaskKeys(shard, tenant, kept.task).erased)
        users: Sequence[str] = () if kept.owner.user is None else (kept.owner.user,)
        marks = await erased_users(self._store, shard, tenant, set(users))
        return (mark is not None and note.noted_at <= mark.at) or any(note.noted_at <= at for at in marks.values())

    async def _come_back(self, tenant: str, task: str) -> None:
        """What the task says is written anew, and what is known from it."""
        keys = TaskKeys(shard_in(task, self._shards) or 0, tenant, task)
        record = await self._records.read(tenant, task)
        if record is not None and is_statement(task) and not is_episode(record):
            await self._noting.write_again(record)
            return
        await ask_to_remember(self._store, keys)
        if self._extracts and record is not None and record.extraction is not None:
            wake_up = WakeUp(actor=keys.actor)  # an archiver writes the answer that is kept, and asks no model
            await self._store.call("XADD", EXTRACT.key(keys.shard), "*", "data", wake_up.to_json())
            metrics.published.labels(EXTRACT.name, WakeUp.__name__).inc()
