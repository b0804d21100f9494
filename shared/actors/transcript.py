"""Transcript entries: two lines each, what we know of a message and the message as the model is sent it.

A transcript is only appended to. What prompts are no longer to have stays in its place, and an entry behind it says
what they have instead: a `Replacement`. An `Exclusion`, of a message that a person has moved away, is one by nothing,
and so is a `NodeEntry`, which says how the run of a graph has gone on. A `Compaction` is one by a summary.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.records import Compaction, Exclusion, NodeEntry, TranscriptMeta
from pentad.shared.immutable import immutable

EXCLUSION: str = Exclusion.model_fields["role"].default
NODE: str = NodeEntry.model_fields["role"].default
COMPACTION: str = Compaction.model_fields["role"].default
_NOTES = frozenset({EXCLUSION, NODE, COMPACTION})
"""Roles of the entries that are no messages."""
_EXCLUSION = b'{"role":"%s"' % EXCLUSION.encode()
"""Begins the line of an exclusion, and the line of no message."""
_NODE_ENTRY = b'{"role":"%s"' % NODE.encode()
"""Begins the line of an entry about a graph's run, and the line of no message."""
_COMPACTION = b'{"role":"%s"' % COMPACTION.encode()
"""Begins the line of an entry about messages that prompts have in short, and the line of no message."""


def chat_form(shown_entry: Mapping[str, Any]) -> bytes:
    """Return the part of an entry that is sent to the model, from an entry as `shown` gives it."""
    return to_json({name: value for name, value in shown_entry.items() if name not in TranscriptMeta.model_fields})


def entry(message: Mapping[str, Any], meta: TranscriptMeta) -> bytes:
    """Return a message as a transcript entry."""
    return meta.to_json() + b"\n" + to_json(message)


def is_note(shown_entry: Mapping[str, Any]) -> bool:
    """Return whether an entry, as `shown` gives it, is no message but says something about others."""
    return shown_entry.get("role") in _NOTES


def node_entries_in(lines: Iterable[bytes]) -> tuple[NodeEntry, ...]:
    """Return the entries about a graph's run. ``lines``: as `message_of` gives them."""
    return tuple([NodeEntry.model_validate_json(line) for line in lines if line.startswith(_NODE_ENTRY)])


def started_tasks(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the tasks that a task has started. ``messages``: its transcript as `shown` gives it."""
    return [str(each["child"]) for each in messages if each.get("role") == NODE and each.get("kind") == "started"]


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
    return tuple(_replacements(lines, start))


def _replacements(lines: Sequence[bytes], start: int) -> Iterator[Replacement]:
    for at, line in enumerate(lines, start):
        if line.startswith(_EXCLUSION):
            yield Replacement(at, frozenset(Exclusion.model_validate_json(line).positions))
        elif line.startswith(_NODE_ENTRY):
            yield Replacement(at, frozenset(NodeEntry.model_validate_json(line).positions))
        elif line.startswith(_COMPACTION):
            shortened = Compaction.model_validate_json(line)
            instead = to_json({"role": "user", "content": shortened.content})
            yield Replacement(at, frozenset(shortened.positions), (instead,))


def replaced(replacements: Sequence[Replacement]) -> frozenset[int]:
    """The positions at which other messages, or none, stand in prompts."""
    return frozenset[int]().union(*(each.positions for each in replacements))


def prompt_of(messages: Sequence[bytes], replacements: Sequence[Replacement]) -> Sequence[bytes]:
    """The messages that a model is sent of a transcript.

    The messages of a replacement stand where the first of those stood that it replaces. One that is replaced itself
    adds none, and what it has replaced does not come back.
    """
    return [line for _, line in placed(messages, replacements)] if replacements else messages


def placed(messages: Sequence[bytes], replacements: Sequence[Replacement]) -> list[tuple[int, bytes]]:
    """The messages that a model is sent of a transcript, as `prompt_of` gives them, each with its position.

    A message that stands for others has the position of the entry that says so.
    """
    gone = replaced(replacements)
    instead: dict[int, list[tuple[int, bytes]]] = {}
    for each in replacements:
        if each.messages and each.at not in gone:
            instead.setdefault(min(each.positions), []).extend((each.at, line) for line in each.messages)
    gone = gone.union(each.at for each in replacements)
    prompt: list[tuple[int, bytes]] = []
    for position, message in enumerate(messages):
        prompt += instead.get(position, ())
        if position not in gone:
            prompt.append((position, message))
    return prompt


def left_out(messages: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Positions of what is no part of the conversation: what was moved away or judged, and all entries about others.

    What prompts have in short is still a part of it. ``messages``: as `shown` gives them.
    """
    notes = [n for n, message in enumerate(messages) if is_note(message)]
    away = [n for n in notes if messages[n].get("role") != COMPACTION]
    return frozenset(notes).union(*(messages[n].get("positions") or () for n in away))


def remaining(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of the conversation. ``messages``: as `shown` gives them."""
    gone = left_out(messages)
    return [message for n, message in enumerate(messages) if n not in gone] if gone else list(messages)
