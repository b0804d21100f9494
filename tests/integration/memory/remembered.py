"""A task that has ended, and the archiver's handler that remembers it, one entry after the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import REMEMBER
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.remembering import Remembering
from pentad.shared.actors.transcript import entry
from pentad.shared.embedder.embedder import Embedder, HashingEmbedder
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Argument, Store
from pentad.shared.vectors.points import KeptPoint
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry
from tests.support.remembering import COLLECTION

TASK = TaskKeys(0, "acme", "task-0-1")
AT = "2030-01-31T12:00:00.000Z"
ENDED: dict[str, str | int] = {
    "status": "completed", "session": "s1", "ended_at": 1, "created": 1, "updated": 1, "last_step": "step-1"
}  # fmt: skip


async def end(store: Store, said: Sequence[tuple[str, str, str | None]], **fields: str | int) -> None:
    """Let the task have ended after these messages: role, text, user."""
    for role, text, user in said:
        await store.call("RPUSH", TASK.log, entry({"role": role, "content": text}, TranscriptMeta(at=AT, user_id=user)))
    values: list[Argument] = [part for pair in (ENDED | fields).items() for part in pair]
    await store.call("HSET", TASK.header, *values)


async def exclude(store: Store, *positions: int) -> None:
    """Let messages have been moved away."""
    gone = {"role": "exclusion", "positions": list(positions), "to": "new", "to_task_id": "task-0-2"}
    await store.call("RPUSH", TASK.log, entry(gone, TranscriptMeta(at=AT)))


def remembering(store: Store, folder: Path, vectors: Vectors, embedder: Embedder | None = None) -> Remembering:
    """The handler, with the embedding that needs no model."""
    ended = EndedTasks(store, Records(str(folder / "records")), vectors)
    return Remembering(store, ended, vectors, embedder or HashingEmbedder())


def woken(keys: TaskKeys = TASK, *, redelivered: bool = False) -> Entry:
    """The entry that the task's end has queued. ``redelivered``: whoever had it before has died."""
    return Entry(REMEMBER.key(keys.shard), "1-1", WakeUp(actor=keys.actor).to_json(), redelivered)


async def everything(vectors: Vectors, tenant: str = "acme") -> list[KeptPoint]:
    """Every point of a tenant."""
    return (await vectors.scroll(COLLECTION, Selection(Owner(tenant), Whose.ALL), 1000)).points


async def texts(vectors: Vectors, **selected: Any) -> list[str]:
    """What is remembered, in the order in which it was said."""
    selection = Selection(Owner("acme"), Whose.ALL, kinds=(SEGMENT_KIND,), **selected)
    found = (await vectors.scroll(COLLECTION, selection, 1000)).points
    return [point.payload.text for point in sorted(found, key=lambda point: point.payload.position)]
