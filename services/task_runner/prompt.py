"""A transcript's entries and the prompt that is built from them.

Entries hold each message as ready JSON, so building a prompt of any length is joining bytes, and a step's cost does not
grow with the parsing of its history.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from contracts.tools import ToolSpec
from shared.state.transcript import message_of

_CACHE_BYTES = 8 * 1024 * 1024


def user(content: str) -> dict[str, Any]:
    """A user's message, word for word."""
    return {"role": "user", "content": content}


def tool_result(call_id: str, content: str) -> dict[str, Any]:
    """The answer to one tool call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def assistant(text: str, calls: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """The model's answer; ``calls`` are (our id, name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, name, arguments in calls
        ]
    return message


def chain(digest: str, added: Iterable[bytes], system: bytes, tools: str, model: str) -> str:
    """The digest of a prompt: chained on the step before, so that its cost is what the step adds."""
    h = hashlib.sha256(digest.encode())
    for part in (system, tools.encode(), model.encode(), *added):
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.hexdigest()


class Toolbox:
    """The tools that are offered, as the model is told about them."""

    def __init__(self, specs: Mapping[str, ToolSpec]) -> None:
        self.specs = specs
        described = [
            {
                "type": "function",
                "function": {"name": s.name, "description": s.description, "parameters": s.parameters},
            }
            for s in specs.values()
        ]
        self.json: bytes | None = to_json(described) if described else None
        self.digest = hashlib.sha256(self.json).hexdigest()[:16] if self.json else ""


class TranscriptCache:
    """Transcripts that were read lately, as messages. Bounded in bytes: waiting tasks cost nothing for long."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._kept: OrderedDict[str, tuple[list[bytes], int]] = OrderedDict()

    def known(self, key: str) -> int:
        """How many messages of this transcript are known."""
        kept = self._kept.get(key)
        return len(kept[0]) if kept else 0

    def extend(self, key: str, known: int, raw: Sequence[bytes]) -> list[bytes]:
        """The whole transcript: the first ``known`` messages and the entries that follow them."""
        messages = self._pop(key)[:known]
        messages.extend(message_of(r) for r in raw)
        return messages

    def keep(self, key: str, messages: list[bytes]) -> None:
        """Remember a committed transcript; what was not used for longest goes."""
        self._pop(key)
        size = sum(map(len, messages)) + 64 * len(messages)
        if size > self._limit // 2:
            return
        self._kept[key] = (messages, size)
        self._size += size
        while self._size > self._limit:
            _, (_, old) = self._kept.popitem(last=False)
            self._size -= old

    def _pop(self, key: str) -> list[bytes]:
        messages, size = self._kept.pop(key, ([], 0))
        self._size -= size
        return messages
