"""Transcript entries: two lines each, what we know of a message and the message as the model is sent it.

A transcript is only appended to. What prompts are no longer to have stays in its place, and an entry behind it says
what they have instead: a `Replacement`. An `Exclusion`, of a message that a person has moved away, is one by nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.records import Exclusion, TranscriptMeta
from pentad.shared.immutable import immutable

EXCLUSION: str = Exclusion.model_fields["role"].default
_EXCLUSION = b'{"role":"%s"' % EXCLUSION.encode()
"""Begins the line of an exclusion, and the line of no message."""


def chat_form(shown_entry: Mapping[str, Any]) -> bytes:
    """Return the part of an entry that is sent to the model, from an entry as `shown` gives it."""
    return to_json({name: value for name, value in shown_entry.items() if name not in TranscriptMeta.model_fields})


def entry(message: Mapping[str, Any], meta: TranscriptMeta) -> bytes:
    """Return a message as a transcript entry."""
    return meta.to_json() + b"\n" + to_json(message)


def message_of(raw: bytes) -> bytes:
    """Return the part of an entry that is sent to the model."""
    return raw[raw.index(b"\n") + 1 :]


def shown(raw: bytes) -> dict[str, Any]:
    """Return an entry as inspection shows it: the OpenAI chat form, and the metadata beside it."""
    meta, message = raw.split(b"\n", 1)
    known: dict[str, Any] = from_json(meta)
    merged: dict[str, Any] = from_json(message) | known
    return merged


@immutable
class Replacement:
    """Prompts have ``messages`` where the messages at ``positions`` stood: none for what was moved away."""

    at: int
    """Position of the entry that says so, which is no message."""
    positions: frozenset[int]
    messages: tuple[bytes, ...] = ()


def replacements_in(lines: Sequence[bytes], start: int = 0) -> tuple[Replacement, ...]:
    """Return the replacements in prompts that these entries ask for.

    ``lines``: as `message_of` gives them. ``start``: position of the first.
    """
    return tuple(
        Replacement(at, frozenset(Exclusion.model_validate_json(line).positions))
        for at, line in enumerate(lines, start)
        if line.startswith(_EXCLUSION)
    )


def replaced(replacements: Sequence[Replacement]) -> frozenset[int]:
    """The positions at which other messages, or none, stand in prompts."""
    return frozenset[int]().union(*(each.positions for each in replacements))


def prompt_of(messages: Sequence[bytes], replacements: Sequence[Replacement]) -> Sequence[bytes]:
    """The messages that a model is sent of a transcript.

    The messages of a replacement stand where the first of those stood that it replaces. One that is replaced itself
    adds none, and what it has replaced does not come back.
    """
    if not replacements:
        return messages
    gone = replaced(replacements)
    instead: dict[int, list[bytes]] = {}
    for each in replacements:
        if each.messages and each.at not in gone:
            instead.setdefault(min(each.positions), []).extend(each.messages)
    gone = gone.union(each.at for each in replacements)
    prompt: list[bytes] = []
    for position, message in enumerate(messages):
        prompt += instead.get(position, ())
        if position not in gone:
            prompt.append(message)
    return prompt


def left_out(messages: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Positions that prompts leave out: what was moved away, and what says so. ``messages``: as `shown` gives them."""
    notes = [n for n, message in enumerate(messages) if message.get("role") == EXCLUSION]
    return frozenset(notes).union(*(messages[n].get("positions") or () for n in notes))


def remaining(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that prompts have. ``messages``: as `shown` gives them."""
    gone = left_out(messages)
    return [message for n, message in enumerate(messages) if n not in gone] if gone else list(messages)
