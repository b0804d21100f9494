"""A person undoes what a model had forgotten, within a day: it is noted no more, and comes back from the records."""

from collections.abc import Sequence

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import shard_in
from pentad.contracts.streams import EXTRACT
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.memory.knowledge_edits import Noting
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import erased_users, mark_at
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import remove_notes
from pentad.shared.memory.forgotten_notes import ForgottenNote, hand_over
from pentad.shared.memory.remember_again import ask_to_remember
from pentad.shared.memory.statements import is_episode, is_statement
from pentad.shared.memory.undoable import drop_undoable, read_undoable
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import Point
from pentad.shared.vectors.vector_store import Vectors


class Unforgetting:
    """Raises ``ProblemError``, and ``OutageError`` while a store is away: asked again, it goes on."""

    def __init__(
        self, store: Store, records: Records, vectors: Vectors, noting: Noting, shards: int, *, extracts: bool
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
