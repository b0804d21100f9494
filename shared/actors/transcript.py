"""Transcript entries: two lines each, what we know of a message and the message as the model is sent it.

A transcript is only appended to. What a person has moved away stays in its place, and an `Exclusion` behind it says
that prompts leave it out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.records import Exclusion, TranscriptMeta

EXCLUSION: str = Exclusion.model_fields["role"].default
_EXCLUSION = b'{"role":"%s"' % EXCLUSION.encode()
"""What the line of an exclusion begins with, and no message's."""


def entry(message: Mapping[str, Any], meta: TranscriptMeta) -> bytes:
    """A transcript entry."""
    return meta.to_json() + b"\n" + to_json(message)


def message_of(raw: bytes) -> bytes:
    """The part of an entry that the model is sent."""
    return raw[raw.index(b"\n") + 1 :]


def shown(raw: bytes) -> dict[str, Any]:
    """An entry as inspection shows it: OpenAI chat form plus what we know beside it."""
    meta, message = raw.split(b"\n", 1)
    known: dict[str, Any] = from_json(meta)
    merged: dict[str, Any] = from_json(message) | known
    return merged


def excluded_by(line: bytes) -> frozenset[int]:
    """The positions that an exclusion names; none for a message. ``line``: as `message_of` gives it."""
    if not line.startswith(_EXCLUSION):
        return frozenset()
    return frozenset(Exclusion.model_validate_json(line).positions)


def is_exclusion(line: bytes) -> bool:
    """Whether this line of an entry is no message."""
    return line.startswith(_EXCLUSION)


def left_out(messages: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Positions that prompts leave out: what was moved away, and what says so. ``messages``: as `shown` gives them."""
    notes = [n for n, message in enumerate(messages) if message.get("role") == EXCLUSION]
    return frozenset(notes).union(*(messages[n].get("positions") or () for n in notes))


def remaining(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that prompts have. ``messages``: as `shown` gives them."""
    gone = left_out(messages)
    return [message for n, message in enumerate(messages) if n not in gone] if gone else list(messages)
