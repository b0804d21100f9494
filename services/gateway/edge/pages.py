"""Pages of an index that is spread over all shards, newest first; the cursor names the last entry shown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

from pentad.contracts.ids import decoded_id
from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable
from pentad.shared.store.store import Store

T = TypeVar("T")
_READ = 200
_END = 1e16
"""Behind every score: a cursor holds 16 digits."""


class BadPageError(PentadError):
    """Not a cursor of this list: never again."""


@dataclass(frozen=True, slots=True, order=True)
class IndexEntry:
    """A member of an index with its score, in ms."""

    score: int
    member: str

    def cursor(self) -> str:
        """Opaque to clients."""
        return f"{self.score}.{self.member}"


@immutable
class Page:
    """Part of a list, and where the next part begins."""

    items: list[dict[str, object]]
    next: str | None


def parse_page(cursor: str | None) -> IndexEntry | None:
    """What `Entry.cursor` has written. Raises ``BadPageError``."""
    if cursor is None:
        return None
    score, _, member = cursor.partition(".")
    if not score.isascii() or not score.isdigit() or len(score) > 16 or not _is_name(member):
        raise BadPageError("the cursor must be the `next` of an earlier page")
    return IndexEntry(int(score), member)


def _is_name(member: str) -> bool:
    """Whether an index may have this member: the name of a session, or of a task."""
    try:
        return bool(decoded_id(member))
    except ValueError:
        return False


async def newest_first(
    store: Store, key_of: Callable[[int], str], shards: int, after: IndexEntry | None
) -> AsyncIterator[list[IndexEntry]]:
    """The entries behind ``after``, in pieces. Equal scores are ordered by member."""
    while True:
        pieces = await asyncio.gather(*(_piece(store, key_of(shard), after) for shard in range(shards)))
        # What lies behind the end of a piece that is not its index's end is not known yet.
        ends = [piece[-1] for piece in pieces if len(piece) == _READ]
        floor = max(ends, default=None)
        merged = sorted((e for piece in pieces for e in piece if floor is None or e >= floor), reverse=True)
        if merged:
            yield merged
        if floor is None:
            return
        after = floor


async def oldest(store: Store, key: str) -> int | None:
    """The score of an index's last entry; None where there is no index."""
    last = await store.call("ZRANGE", key, 0, 0, "WITHSCORES")
    entry = _entry(*last) if last else None
    return None if entry is None else entry.score


async def _piece(store: Store, key: str, after: IndexEntry | None) -> list[IndexEntry]:
    """Up to ``_READ`` entries behind ``after``."""
    found: list[IndexEntry] = []
    highest = "+inf" if after is None else after.score
    skip = 0
    while len(found) < _READ:
        flat = await store.call("ZREVRANGEBYSCORE", key, highest, "-inf", "WITHSCORES", "LIMIT", skip, _READ)
        read = [_entry(member, score) for member, score in zip(flat[::2], flat[1::2], strict=True)]
        found += [entry for entry in read if entry is not None and (after is None or entry < after)]
        skip += len(read)
        if len(read) < _READ:
            break
    return found[:_READ]


def _entry(member: bytes, score: bytes) -> IndexEntry | None:
    """None for what is none of ours: nobody could ask for it."""
    name, at = member.decode(errors="replace"), float(score)
    return IndexEntry(int(at), name) if _is_name(name) and 0 <= at < _END else None
