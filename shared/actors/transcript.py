"""Transcript entries: two lines each, what we know of a message and the message as the model is sent it."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.records import TranscriptMeta


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
