"""Pages of an index that is spread over all shards, newest first; a cursor names the last entry of a page."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

from pentad.contracts.ids import decoded_id
from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable
from pentad.shared.store.store import Store

T = TypeVar("T")
_CHUNK_ENTRIES = 200
"""Entries that are read from one shard at a time."""
_MAX_SCORE = 1e16
"""Bound of scores: a cursor holds 16 digits."""


class BadPageError(PentadError):
    """The text is not a cursor of this list, and never will be."""


@dataclass(frozen=True, slots=True, order=True)
class IndexEntry:
    """A member of an index with its score in milliseconds."""

    score: int
    member: str

    def cursor(self) -> str:
        """Return the entry as a cursor, which is opaque to clients."""
        return f"{self.score}.{self.member}"


@immutable
class Page:
    """A part of a list, with the cursor of the next part."""

    items: list[dict[str, object]]
    next: str | None


def parse_page(cursor: str | None) -> IndexEntry | None:
    """Return the entry that `IndexEntry.cursor` wrote. Raises ``BadPageError``."""
    if cursor is None:
        return None
    score, _, member = cursor.partition(".")
    if not score.isascii() or not score.isdigit() or len(score) > 16 or not _is_name(member):
        raise BadPageError("the cursor must be the `next` of an earlier page")
    return IndexEntry(int(score), member)


def _is_name(member: str) -> bool:
    """Return whether an index may have this member: the encoded id of a session, or the id of a task."""
    try:
        return bool(decoded_id(member))
    except ValueError:
        return False


async def newest_first(
    store: Store, key_of: Callable[[int], str], shards: int, after: IndexEntry | None
) -> AsyncIterator[list[IndexEntry]]:
    """Return the entries after ``after`` in pieces, newest first. Equal scores are ordered by member."""
    while True:
        pieces = await asyncio.gather(*(_piece(store, key_of(shard), after) for shard in range(shards)))
        # Entries after the end of a full piece are not known yet.
        ends = [piece[-1] for piece in pieces if len(piece) == _CHUNK_ENTRIES]
        floor = max(ends, default=None)
        merged = sorted((e for piece in pieces for e in piece if floor is None or e >= floor), reverse=True)
        if merged:
            yield merged
        if floor is None:
            return
        after = floor


async def oldest(store: Store, key: str) -> int | None:
    """Return the score of an index's oldest entry; None if there is no index."""
    last = await store.call("ZRANGE", key, 0, 0, "WITHSCORES")
    entry = _entry(*last) if last else None
    return None if entry is None else entry.score


async def _piece(store: Store, key: str, after: IndexEntry | None) -> list[IndexEntry]:
    """Return up to ``_CHUNK_ENTRIES`` entries of one shard after ``after``."""
    found: list[IndexEntry] = []
    highest = "+inf" if after is None else after.score
    skip = 0
    while len(found) < _CHUNK_ENTRIES:
        flat = await store.call("ZREVRANGEBYSCORE", key, highest, "-inf", "WITHSCORES", "LIMIT", skip, _CHUNK_ENTRIES)
        read = [_entry(member, score) for member, score in zip(flat[::2], flat[1::2], strict=True)]
        found += [entry for entry in read if entry is not None and (after is None or entry < after)]
        skip += len(read)
        if len(read) < _CHUNK_ENTRIES:
            break
    return found[:_CHUNK_ENTRIES]


def _entry(member: bytes, score: bytes) -> IndexEntry | None:
    """Return the entry; None for a member that Pentad has not written, which no cursor could name."""
    name, at = member.decode(errors="replace"), float(score)
    return IndexEntry(int(at), name) if _is_name(name) and 0 <= at < _MAX_SCORE else None
