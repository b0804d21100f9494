"""What is forgotten is noted twice: in the memory's own store, for who writes, and beside the records.

A store of vectors that was emptied or replaced has lost its notes; what is beside the records is put back before the
memory is rebuilt from them. Who forgets hands the notes over in Redis, for not every service may write records; an
archiver writes them a moment later.
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

_AT_ONCE = 500
"""Notes that are handed over, or taken, together."""


@immutable
class ForgottenNote:
    """Something that is not to be found any more."""

    point: KeptPoint
    """As `FORGOTTEN` has it: the task, what is forgotten of it (the anchor), whose it was; without words."""
    noted_at: int
    """In ms since the epoch; 0 where that is not known."""
    taken_back: bool = False
    """It is found again from then on: what was noted before does not count any more."""


ONE_NOTE: TypeAdapter[ForgottenNote] = TypeAdapter(ForgottenNote)
_NOTES: TypeAdapter[list[ForgottenNote]] = TypeAdapter(list[ForgottenNote])


async def hand_over(store: Store, points: Sequence[Point], *, taken_back: bool = False) -> None:
    """Have it noted beside the records that these are forgotten, or that they are not any more.

    Safe to repeat. Raises ``OutageError``.
    """
    now = await store.clock() if points else 0
    for begin in range(0, len(points), _AT_ONCE):
        fields: list[Argument] = []
        for point in points[begin : begin + _AT_ONCE]:
            note = ForgottenNote(KeptPoint(point.id, point.payload), now, taken_back)
            kept = point.payload
            fields += [f"{kept.owner.tenant}/{kept.task}/{point.id}/{now}", ONE_NOTE.dump_json(note)]
        await store.call("HSET", FORGOTTEN_NOTES, *fields)


async def keep_handed_over(store: Store, records: Records) -> None:
    """Write beside the records what was handed over until now; nothing of what was erased meanwhile.

    Raises ``OutageError``: what is not written then stays handed over.
    """
    cursor = b"0"
    while True:
        cursor, found = await store.call("HSCAN", FORGOTTEN_NOTES, cursor, "COUNT", _AT_ONCE)
        fields = dict(zip(found[::2], found[1::2], strict=True))
        if fields:
            await keep_notes(store, records, [note for raw in fields.values() if (note := _read(raw)) is not None])
            await store.call("HDEL", FORGOTTEN_NOTES, *fields)
        if cursor == b"0":
            return


async def keep_notes(store: Store, records: Records, notes: Sequence[ForgottenNote]) -> None:
    """Write these beside the records, but for tasks that were erased. Safe to repeat. Raises ``OutageError``."""
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
    """What is forgotten of a task, as it is noted beside its record, each once. Raises ``OutageError``."""
    return [note for note in await _newest(records, tenant, task) if not note.taken_back]


async def _newest(records: Records, tenant: str, task: str) -> list[ForgottenNote]:
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


async def put_back(records: Records, vectors: Vectors, tenant: str, task: str) -> None:
    """Let the memory's own store know again what is forgotten of a task, and what is not. Raises ``OutageError``."""
    noted = await _newest(records, tenant, task)
    await write_notes(vectors, [Point(note.point.id, note.point.payload) for note in noted if not note.taken_back])
    await remove_notes(vectors, tenant, [note.point.id for note in noted if note.taken_back])


async def keep_all(store: Store, records: Records, vectors: Vectors) -> None:
    """Write beside the records what earlier versions have noted in the memory's store alone. Raises ``OutageError``.

    A node that was added by hand again since is known; these versions have left its note where it was.
    """
    collections = [each.name for each in await vectors.collections() if each.name != FORGOTTEN]
    async for points in _everything(vectors):
        nodes = {point.payload.anchor for point in points if is_statement(point.payload.task)}
        known = await _there(vectors, collections, points[0].payload.owner.tenant, nodes) if nodes else set()
        noted = [point for point in points if not (is_statement(point.payload.task) and point.payload.anchor in known)]
        await keep_notes(store, records, [ForgottenNote(point, 0) for point in noted])


async def _there(vectors: Vectors, collections: Sequence[str], tenant: str, ids: Collection[str]) -> set[str]:
    """Which of these are points of a collection."""
    chosen = sorted(ids)
    found: set[str] = set()
    for begin in range(0, len(chosen), MOST_POINTS):
        asked = Selection(Owner(tenant), Whose.ALL, ids=tuple(chosen[begin : begin + MOST_POINTS]))
        for name in collections:
            found |= {point.id for point in await vectors.get(name, asked)}
    return found


async def _everything(vectors: Vectors) -> AsyncIterator[list[KeptPoint]]:
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
        return ONE_NOTE.validate_json(raw)
    except ValidationError:
        return None
