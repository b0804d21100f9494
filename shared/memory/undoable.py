"""What a model had forgotten can be undone for a day: until then it is known what it was, without its words.

It is hidden as all that is forgotten is. Its words are in the records, from which it comes back.
"""

from collections.abc import Sequence

from pydantic import ValidationError

from pentad.shared.keys import UNDO_S, undoable
from pentad.shared.memory.forgotten_notes import ONE_NOTE, ForgottenNote
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.points import KeptPoint, Point


async def keep_undoable(store: Store, tenant: str, anchor: str, notes: Sequence[Point]) -> None:
    """Know for a day what a model has forgotten at this anchor. Safe to repeat. Raises ``OutageError``."""
    if not notes:
        return
    now, key = await store.clock(), undoable(tenant, anchor)
    fields: list[Argument] = []
    for point in notes:
        fields += [point.id, ONE_NOTE.dump_json(ForgottenNote(KeptPoint(point.id, point.payload), now))]
    await store.calls([("HSET", key, *fields), ("EXPIRE", key, UNDO_S)])


async def read_undoable(store: Store, tenant: str, anchor: str) -> list[ForgottenNote]:
    """What can be undone there. Raises ``OutageError``."""
    found: list[ForgottenNote] = []
    for raw in (await store.call("HGETALL", undoable(tenant, anchor)))[1::2]:
        try:
            found.append(ONE_NOTE.validate_json(raw))
        except ValidationError:
            continue
    return found


async def drop_undoable(store: Store, tenant: str, anchor: str, notes: Sequence[ForgottenNote]) -> None:
    """These were undone. Safe to repeat. Raises ``OutageError``."""
    await store.call("HDEL", undoable(tenant, anchor), *(note.point.id for note in notes))
