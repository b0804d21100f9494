"""A digest as bytes, for a field of its session's header. What cannot be read is as if nothing had been kept."""

import struct
from itertools import accumulate
from operator import le
from typing import get_args

from pentad.shared.digests.cues import Asked
from pentad.shared.digests.task_digest import (
    GOAL_WORDS,
    KNOWN_WORDS,
    MOST_DIMENSIONS,
    MOST_MODEL_CHARS,
    TURN_WORDS,
    Sketch,
    TaskDigest,
)

_VERSION = 1
_HEAD = struct.Struct("<BBBHHHHHH")
"""Version, what was asked, closed, then how long each part is: four lists of words, the model's name, the vector."""
_ASKED: tuple[Asked, ...] = get_args(Asked)
_LISTS = (GOAL_WORDS, TURN_WORDS, TURN_WORDS, KNOWN_WORDS)
_MAX_LENGTHS = (*_LISTS, 4 * MOST_MODEL_CHARS, MOST_DIMENSIONS)
MOST_BYTES = _HEAD.size + sum(_LISTS) + sum(_MAX_LENGTHS)
"""Bytes that a stored digest may have, a little under 1.5 KiB; most have 200 to 900."""


def digest_bytes(digest: TaskDigest) -> bytes:
    """A digest as it is kept, at most `MOST_BYTES`."""
    lists = (digest.goal, digest.said, digest.answered, digest.known)
    name, values = b"", b""
    if digest.sketch is not None:
        name, values = digest.sketch.model.encode("utf-8", "replace"), digest.sketch.values
    head = _HEAD.pack(_VERSION, _ASKED.index(digest.asked), digest.closed, *map(len, lists), len(name), len(values))
    words = (*digest.goal, *digest.said, *digest.answered, *digest.known)
    return head + struct.pack(f"<{len(words)}H", *words) + name + values


def digest_of(stored: bytes) -> TaskDigest | None:
    """The digest, or None for what is none: damaged, or written by a newer version."""
    try:
        return _read(stored)
    except (ValueError, IndexError, struct.error):
        return None


def _read(stored: bytes) -> TaskDigest:
    version, asked, closed, *lengths = _HEAD.unpack_from(stored)
    *lists, name, values = lengths
    fits = all(map(le, lengths, _MAX_LENGTHS))
    if version != _VERSION or not fits or len(stored) != _HEAD.size + 2 * sum(lists) + name + values:
        raise ValueError("no digest of this version")
    words = struct.unpack_from(f"<{sum(lists)}H", stored, _HEAD.size)
    goal, said, answered, known = [words[end - n : end] for end, n in zip(accumulate(lists), lists, strict=True)]
    rest = stored[_HEAD.size + 2 * sum(lists) :]
    sketch = Sketch(rest[:name].decode(), rest[name:]) if any(rest[name:]) else None
    return TaskDigest(goal, said, answered, known, asked=_ASKED[asked], closed=bool(closed), sketch=sketch)
