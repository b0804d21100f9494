"""Marks of erasures beside the keys, read by every writer that may come late.

Who erases sets the mark first and removes what there is then. Who writes reads the mark behind the write, and takes
back what it has written when there is one. Whichever was first, nothing stays.
"""

from collections.abc import Collection

from pentad.shared.actors.headers import pairs, read_integer, read_session, read_text
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, erased_user
from pentad.shared.store.store import Store


@immutable
class ErasedMark:
    """The mark of an erased task, session or user."""

    at: int
    """When, in ms of its shard's clock: all that was there by then."""
    entry: str
    """The last inbound entry by then."""
    session: str
    """Session of an erased task; '' where that is not known."""


async def mark_at(store: Store, key: str) -> ErasedMark | None:
    """The mark under this key, or None. Raises ``OutageError``."""
    raw = pairs(await store.call("HGETALL", key))
    if "at" not in raw:
        return None
    return ErasedMark(
        at=read_integer(raw["at"]),
        entry=read_text(raw.get("entry", b"")) or "0-0",
        session=read_session(raw.get("session", b"")),
    )


async def is_erased(store: Store, task: TaskKeys) -> bool:
    """Whether this task was erased, by itself or with its session or its user."""
    return bool(await store.call("EXISTS", task.erased))


async def erased_users(store: Store, shard: int, tenant: str, users: Collection[str]) -> dict[str, int]:
    """Which of these users were erased, and when, in ms."""
    marks = [(user, await mark_at(store, erased_user(shard, tenant, user))) for user in sorted(users)]
    return {user: mark.at for user, mark in marks if mark is not None}


def entry_order(entry: str) -> tuple[int, int]:
    """Where an id of an entry stands among others. Raises ``ValueError`` for what is none."""
    ms, _, seq = entry.partition("-")
    return int(ms), int(seq)
