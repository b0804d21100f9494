"""What Redis keeps of a task beside its keys: events that its clients were told, cached vectors of its texts."""

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Any

from pydantic_core import from_json

from pentad.shared.actors.session_header import excerpt
from pentad.shared.embedder.vectors import cache_of_task, content_key
from pentad.shared.keys import SessionKeys, vector
from pentad.shared.owners import session_holder
from pentad.shared.segments.segment import segments_of
from pentad.shared.store.store import Store
from pentad.shared.work.entry import data_of

_EVENTS = 100
"""Events that are read at once: one has up to a MiB."""
_VECTORS = 500


async def remove_events(store: Store, session: SessionKeys, tasks: Collection[str], until: int = 0) -> None:
    """Remove what a session's clients were told of these tasks, and all that they were told up to ``until``, in ms.

    Safe to repeat. Raises ``OutageError``.
    """
    if until:
        await store.call("XTRIM", session.events, "MINID", "=", f"{until + 1}-0")
    after = "-"
    while found := await store.call("XRANGE", session.events, after, "+", "COUNT", _EVENTS):
        gone = [entry for entry, fields in found if _task_of(data_of(fields)) in tasks]
        if gone:
            await store.call("XDEL", session.events, *gone)
        after = f"({found[-1][0].decode()}"


def _task_of(data: bytes) -> Any:
    try:
        event = from_json(data)
    except ValueError:
        return None
    return event.get("task_id") if isinstance(event, dict) else None


async def remove_vectors(
    store: Store, session: SessionKeys, task: str, models: Collection[str], texts: Iterable[str]
) -> None:
    """Remove the vectors of these texts that are cached for the session, or while the task was learned from.

    Safe to repeat. Raises ``OutageError``.
    """
    known = dict.fromkeys(text.encode("utf-8", "replace").decode() for text in texts)
    caches = (session_holder(session.session), cache_of_task(task))
    names = (content_key(model, session.tenant, *each) for model in models for each in product(caches, known))
    keys = [vector(session.shard, name) for name in names]
    for begin in range(0, len(keys), _VECTORS):
        await store.call("DEL", *keys[begin : begin + _VECTORS])


def embedded_texts(tenant: str, task: str, messages: Sequence[dict[str, Any]]) -> list[str]:
    """Every text of a task that was ever embedded: its segments, what users said, how answers began and ended."""
    contents = [content for message in messages if isinstance(content := message.get("content"), str) and content]
    segments = segments_of(tenant, task, messages)
    return [*contents, *map(excerpt, contents), *(segment.text for segment in segments)]
