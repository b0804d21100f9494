"""A transcript's entries and the prompt that is built from them.

Entries hold each message as ready JSON, so building a prompt of any length is joining bytes, and a step's cost does not
grow with the parsing of its history.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.tools import ToolSpec
from pentad.shared.actors.transcript import (
    Replacement,
    message_of,
    node_entries_in,
    placed,
    prompt_of,
    replacements_in,
)
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.attached_files import FIELD
from pentad.shared.immutable import immutable

_CACHE_BYTES = 8 * 1024 * 1024
_NAME_LENGTH = 64
PINNED = "pinned"
"""Key in a message's metadata by which the message stays in prompts when older ones are shortened."""
_PINNED_NAME = b'"%s":' % PINNED.encode()
NO_OUTPUT = "(no output)"
"""Text that stands for the result of a tool that returned no text."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def user(content: str, files: Sequence[str] = ()) -> dict[str, Any]:
    """A user's message, word for word, with the paths of the files that it is about."""
    return {"role": "user", "content": content} | _naming(files)


def tool_result(call_id: str, content: str, images: Sequence[str] = ()) -> dict[str, Any]:
    """The answer to one tool call, with the paths of images that it has made. An empty one is said in words: some
    servers refuse a result without text.
    """
    said = {"role": "tool", "tool_call_id": call_id, "content": content if content.strip() else NO_OUTPUT}
    return said | _naming(images)


def _naming(files: Sequence[str]) -> dict[str, Any]:
    return {FIELD: list(files)} if files else {}


def assistant(
    text: str, calls: Sequence[tuple[str, str, str]], thoughts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The model's answer; ``calls`` are (our id, name, arguments). ``thoughts``: what it is sent back with them."""
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": _sendable(name), "arguments": arguments}}
            for i, name, arguments in calls
        ]
        if thoughts:
            message["thinking"] = thoughts
    return message


def _sendable(name: str) -> str:
    """A tool's name as model servers take it back: one that the model made up may be anything, and they refuse it."""
    return _NOT_IN_NAMES.sub("_", name[:_NAME_LENGTH]) or "_"


class Toolbox:
    """The tools that are offered, as the model is told about them."""

    def __init__(self, specs: Mapping[str, ToolSpec], shown: Mapping[str, ToolSpec] | None = None) -> None:
        """``shown``: those with their schemas, if not all are: the others may be called, too."""
        self.specs = specs if shown is None else {**specs, **shown}
        described = [
            {
                "type": "function",
                "function": {"name": s.name, "description": s.description, "parameters": s.parameters},
            }
            for s in (specs if shown is None else shown).values()
        ]
        self.json: bytes | None = to_json(described) if described else None
        self.digest = hashlib.sha256(self.json).hexdigest()[:16] if self.json else ""


@immutable
class KnownTranscript:
    """A transcript as it was when it was last read: its messages, and its last entry whole."""

    messages: tuple[bytes, ...] = ()
    last: bytes = b""
    replacements: tuple[Replacement, ...] = ()
    """Replacements of messages in prompts."""
    run: GraphRun = GraphRun()
    """Run of the task's graph, if it runs one."""
    pinned: frozenset[int] = frozenset()
    """Positions of messages that stay in prompts as they are: their metadata says `PINNED`."""

    @property
    def has_shortened(self) -> bool:
        """Whether prompts have a text instead of earlier messages."""
        return any(each.messages for each in self.replacements)

    @property
    def placed(self) -> Sequence[tuple[int, bytes]]:
        """The messages that the model is sent, each with its position."""
        return placed(self.messages, self.replacements)

    @property
    def prompt(self) -> Sequence[bytes]:
        """The messages that the model is sent."""
        return prompt_of(self.messages, self.replacements)

    @property
    def start(self) -> int:
        """Where to read on: the last known entry is read again, to see that it is still the same."""
        return max(0, len(self.messages) - 1)

    def extended(self, entries: Sequence[bytes]) -> "KnownTranscript | None":
        """A copy extended by the entries read from ``start`` on; None when they belong to another transcript."""
        if not self.messages:
            fresh = entries
        elif entries and entries[0] == self.last:
            fresh = entries[1:]
        else:
            return None
        if not fresh:
            return self
        pinned = [number for number, raw in enumerate(fresh) if _is_pinned(raw)]
        return self.grown(list(map(message_of, fresh)), fresh[-1], pinned)

    def grown(self, added: Sequence[bytes], last: bytes, pinned: Sequence[int] = ()) -> "KnownTranscript":
        """A copy with these messages appended. ``last``: the whole entry of the last one. ``pinned``: numbers of those
        that stay in prompts.
        """
        kept = self.pinned.union(len(self.messages) + number for number in pinned) if pinned else self.pinned
        replacements = self.replacements + replacements_in(added, len(self.messages))
        run = self.run.after(node_entries_in(added))
        return KnownTranscript((*self.messages, *added), last, replacements, run, kept)


def _is_pinned(raw: bytes) -> bool:
    end = raw.index(b"\n")
    if raw.find(_PINNED_NAME, 0, end) < 0:
        return False
    return PINNED in (from_json(raw[:end]).get("metadata") or {})


class TranscriptCache:
    """Transcripts that were read lately. Bounded in bytes, so that waiting tasks cost nothing for long."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._kept: OrderedDict[str, tuple[KnownTranscript, int]] = OrderedDict()

    def get(self, key: str) -> KnownTranscript:
        """The known part of a transcript."""
        kept = self._kept.get(key)
        return kept[0] if kept else KnownTranscript()

    def keep(self, key: str, known: KnownTranscript) -> None:
        """Remember a committed transcript; what was not used for longest goes."""
        _, old = self._kept.pop(key, (None, 0))
        self._size -= old
        size = sum(map(len, known.messages)) + 64 * len(known.messages)
        if size > self._limit // 2:
            return
        self._kept[key] = (known, size)
        self._size += size
        while self._size > self._limit:
            _, (_, least) = self._kept.popitem(last=False)
            self._size -= least
