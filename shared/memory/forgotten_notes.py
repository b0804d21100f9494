"""Notes of what was forgotten, beside the records: they outlive the store of vectors.

Writers read the notes in the memory's own store (`forgotten`). A store that was emptied or replaced has lost them, so
they are restored from beside the records before the memory is rebuilt. Not every service may write records: notes are
handed over in Redis, and an archiver writes them a moment later.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from hashlib import sha256

from pydantic import TypeAdapter, ValidationError

from pentad.contracts.ids import ANY_SHARD, is_identifier, shard_in
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.immutable import immutable
from pentad.shared.keys import FORGOTTEN_NOTES, TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN, remove_notes, write_notes
from pentad.shared.memory.statements import is_statement
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.limits import MOST_HITS, MOST_POINTS
from pentad.shared.vectors.points import KeptPoint, Point
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_NOTES_PER_CALL = 500
"""Notes that are handed over, or read, at once."""


@immutable
class ForgottenNote:
    """A note that something is forgotten, or found again."""

    point: KeptPoint
    """The note's point in `FORGOTTEN`: the task, what is forgotten of it (the anchor) and its owner, without words."""
    noted_at: int
    """Time of the note, in ms since the epoch; 0 where that is not known."""
    taken_back: bool = False
    """Whether it is found again from then on: earlier notes no longer count."""


NOTE_ADAPTER: TypeAdapter[ForgottenNote] = TypeAdapter(ForgottenNote)
_NOTES: TypeAdapter[list[ForgottenNote]] = TypeAdapter(list[ForgottenNote])


async def hand_over(store: Store, points: Sequence[Point], *, taken_back: bool = False) -> None:
    """Hand notes over, to be written beside the records: these are forgotten, or found again.

    Safe to repeat. Raises ``OutageError``.
    """
    now = await store.clock() if points else 0
    for begin in range(0, len(points), _NOTES_PER_CALL):
        fields: list[Argument] = []
        for point in points[begin : begin + _NOTES_PER_CALL]:
            note = ForgottenNote(KeptPoint(point.id, point.payload), now, taken_back)
            kept = point.payload
            fields += [f"{kept.owner.tenant}/{kept.task}/{point.id}/{now}", NOTE_ADAPTER.dump_json(note)]
        await store.call("HSET", FORGOTTEN_NOTES, *fields)


async def write_handed_over(store: Store, records: Records) -> None:
    """Write the notes that were handed over beside the records, except those of erased tasks.

    Raises ``OutageError``: notes that were not written stay handed over.
    """
    cursor = b"0"
    while True:
        cursor, found = await store.call("HSCAN", FORGOTTEN_NOTES, cursor, "COUNT", _NOTES_PER_CALL)
        fields = dict(zip(found[::2], found[1::2], strict=True))
        if fields:
            await write_record_notes(
                store, records, [note for raw in fields.values() if (note := _read(raw)) is not None]
            )
            await store.call("HDEL", FORGOTTEN_NOTES, *fields)
        if cursor == b"0":
            return


async def write_record_notes(store: Store, records: Records, notes: Sequence[ForgottenNote]) -> None:
    """Write notes beside the records, except those of erased tasks. Safe to repeat. Raises ``OutageError``."""
    by_task: dict[tuple[str, str], list[ForgottenNote]] = {}
    for note in notes:
        by_task.setdefault((note.point.payload.owner.tenant, note.point.payload.task), []).append(note)
    for (tenant, task), noted in by_task.items():
        shard = shard_in(task, ANY_SHARD)
        if shard is None or not (is_identifier(tenant) and is_identifier(task)):
            continue
        noted.sort(key=lambda note: note.point.id)
        # Its name says when, too: what is written later here may have been noted earlier, and must not replace this.
        names = (f"{note.point.id} {note.noted_at}" if note.noted_at else note.point.id for note in noted)
        name = sha256(" ".join(names).encode()).hexdigest()[:32]
        await records.note_forgotten(tenant, task, {name: _NOTES.dump_json(noted)})
        mark = await mark_at(store, TaskKeys(shard, tenant, task).erased)
        if mark is not None and all(note.noted_at <= mark.at for note in noted):
            await records.leave_forgotten(tenant, task)  # whoever erases it marks it before he removes what there is


async def notes_of(records: Records, tenant: str, task: str) -> list[ForgottenNote]:
    """Return what is forgotten of a task, from the notes beside its record, each once. Raises ``OutageError``."""
    return [note for note in await _newest_notes(records, tenant, task) if not note.taken_back]


async def _newest_notes(records: Records, tenant: str, task: str) -> list[ForgottenNote]:
    found: dict[str, ForgottenNote] = {}
    for data in (await records.forgotten(tenant, task)).values():
        try:
            noted = _NOTES.validate_json(data)
        except ValidationError:
            continue
        for note in noted:
            there = found.get(note.point.id)
            if there is None or there.noted_at < note.noted_at:
                found[note.point.id] = note
    return list(found.values())


async def restore_notes(records: Records, vectors: Vectors, tenant: str, task: str) -> None:
    """Restore a task's notes in the memory's own store, without those taken back. Raises ``OutageError``."""
    noted = await _newest_notes(records, tenant, task)
    await write_notes(vectors, [Point(note.point.id, note.point.payload) for note in noted if not note.taken_back])
    await remove_notes(vectors, tenant, [note.point.id for note in noted if note.taken_back])


async def export_notes(store: Store, records: Records, vectors: Vectors) -> None:
    """Write notes beside the records that earlier versions wrote to the memory's store alone. Raises ``OutageError``.

    A node that was added by hand again since is known; those versions left its note in place.
    """
    collections = [each.name for each in await vectors.collections() if each.name != FORGOTTEN]
    async for points in _all_notes(vectors):
        nodes = {point.payload.anchor for point in points if is_statement(point.payload.task)}
        known = await _existing_points(vectors, collections, points[0].payload.owner.tenant, nodes) if nodes else set()
        noted = [point for point in points if not (is_statement(point.payload.task) and point.payload.anchor in known)]
        await write_record_notes(store, records, [ForgottenNote(point, 0) for point in noted])


async def _existing_points(vectors: Vectors, collections: Sequence[str], tenant: str, ids: Collection[str]) -> set[str]:
    """Return which of these ids are points of a collection."""
    chosen = sorted(ids)
    found: set[str] = set()
    for begin in range(0, len(chosen), MOST_POINTS):
        asked = Selection(Owner(tenant), Whose.ALL, ids=tuple(chosen[begin : begin + MOST_POINTS]))
        for name in collections:
            found |= {point.id for point in await vectors.get(name, asked)}
    return found


async def _all_notes(vectors: Vectors) -> AsyncIterator[list[KeptPoint]]:
    try:
        tenants = await vectors.tenants(FORGOTTEN)
    except MemoryRefusedError:  # nobody has forgotten anything
        return
    for tenant in tenants:
        cursor: str | None = None
        while True:
            page = await vectors.scroll(FORGOTTEN, Selection(Owner(tenant), Whose.ALL), MOST_HITS, cursor)
            if page.points:
                yield page.points
            if (cursor := page.next) is None:
                break


def _read(raw: bytes) -> ForgottenNote | None:
    try:
        return NOTE_ADAPTER.validate_json(raw)
    except ValidationError:
        return None
