"""A streamed answer put together from its chunks: what all protocols share, and OpenAI's.

Pure but for the delta sink; servers' habits end here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

from pydantic_core import from_json

from pentad.shared.models.ports import DeltaSink, ModelAnswer, ToolCallDraft, Usage

_MOST_TOKENS = 10**12
_MOST_USD = 1e6
"""What one answer may say that it cost. More is a mistake of the server's, and counts as not said."""
_MOST_CALLS = 1_000
"""Tool calls of one answer."""
NAME_LENGTH = 256
"""Characters of the model's and a tool's name and of a finish reason: they go into headers, events and records."""


class ToolCallAssembly:
    """Tool calls from deltas that arrive in pieces, interleaved, and not always with an index."""

    __slots__ = ("_last", "_slots")

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._last: _Slot | None = None

    def add(self, delta: Any) -> None:
        """Take one entry of a delta's `tool_calls`; what is not an object is ignored.

        Raises `ValueError` beyond 1,000 calls.
        """
        if not isinstance(delta, dict):
            return
        function = as_dict(delta.get("function"))
        name, arguments = as_text(function.get("name")), _arguments(function.get("arguments"))
        slot = self._slot(delta.get("index"), as_text(delta.get("id")), name)
        # Some servers repeat the whole name with every piece of the arguments.
        if not (slot.arguments and name == slot.name):
            slot.name = (slot.name + name)[:NAME_LENGTH]
        if arguments:
            slot.arguments.append(arguments)
        self._last = slot

    def drafts(self) -> tuple[ToolCallDraft, ...]:
        """The calls in the order of their index; empty husks are left out."""
        slots = (slot for _, slot in sorted(self._slots.items()))
        drafts = (ToolCallDraft(slot.name, "".join(slot.arguments)) for slot in slots)
        return tuple(draft for draft in drafts if draft.name or draft.arguments)

    def _slot(self, index: Any, call_id: str, name: str) -> _Slot:
        known = self._slots.get(index) if type(index) is int else self._unnumbered(call_id, name)
        # A second call under the same index (seen with parallel calls): another id, and a name of its own.
        if known is not None and not (name and call_id and known.call_id and call_id != known.call_id):
            return known
        if len(self._slots) >= _MOST_CALLS:
            raise ValueError(f"it asks for more than {_MOST_CALLS} tool calls")
        free = type(index) is int and index not in self._slots
        slot = self._slots[index if free else max(self._slots, default=-1) + 1] = _Slot(call_id)
        return slot

    def _unnumbered(self, call_id: str, name: str) -> _Slot | None:
        if call_id:
            return next((slot for slot in self._slots.values() if slot.call_id == call_id), None)
        if name and self._last is not None and self._last.arguments:
            return None
        return self._last


class _Slot:
    __slots__ = ("arguments", "call_id", "name")

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.name = ""
        self.arguments: list[str] = []


class AnswerAssembly(ABC):
    """One answer as far as it has come, whatever its protocol. Text goes on to the sink at once."""

    __slots__ = ("_calls", "_emit", "_model", "_text", "_thinking", "ended", "finish_reason")

    def __init__(self, emit: DeltaSink) -> None:
        self._emit = emit
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls = ToolCallAssembly()
        self._model = ""
        self.finish_reason = ""
        """In OpenAI's words; empty until the answer is whole."""
        self.ended = False
        """The last event has come."""

    @property
    def empty(self) -> bool:
        """Nothing of an answer has come."""
        return not (self._text or self._thinking or self._calls.drafts())

    @abstractmethod
    def add(self, chunk: dict[str, Any]) -> None:
        """Take one event of a stream, or a whole answer. Raises `ValueError` for more than an answer may hold."""

    @abstractmethod
    def _counted(self) -> Usage:
        """What the server counted."""

    def answer(self, model: str) -> ModelAnswer:
        """The whole answer; `model` stands in where the server did not name its own."""
        calls = self._calls.drafts()
        return ModelAnswer(
            text="".join(self._text),
            thinking="".join(self._thinking),
            tool_calls=calls,
            finish_reason=self.finish_reason or ("tool_calls" if calls else "stop"),
            usage=self._counted(),
            model=self._model or model,
        )

    def _say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._emit("content", text)

    def _think(self, text: str) -> None:
        if text:
            self._thinking.append(text)
            self._emit("thinking", text)


class Assembly(AnswerAssembly):
    """One answer in the OpenAI protocol. `add` takes each chunk as parsed JSON."""

    __slots__ = ("_usage",)

    def __init__(self, emit: DeltaSink) -> None:
        super().__init__(emit)
        self._usage: dict[str, Any] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one chunk of a stream, or a whole answer that was not streamed."""
        if not self._model:
            self._model = as_text(chunk.get("model"))[:NAME_LENGTH]
        usage = chunk.get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        choices = chunk.get("choices")
        if choices and isinstance(choices, list) and isinstance(choices[0], dict):
            self._choice(choices[0])

    def _choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index"):  # asked for one answer: what belongs to a second is not ours
            return
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta)
        if reason := choice.get("finish_reason"):
            self.finish_reason = as_text(reason)[:NAME_LENGTH] or self.finish_reason

    def _delta(self, delta: dict[str, Any]) -> None:
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            self._think(as_text(thought))
        if content := delta.get("content"):
            self._say(content if type(content) is str else as_text(content))
        if (calls := delta.get("tool_calls")) and isinstance(calls, list):
            for call in calls:
                self._calls.add(call)

    def _counted(self) -> Usage:
        return _usage(self._usage)


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object; halves of surrogate pairs and bytes that are not UTF-8 become marks of replacement.

    Raises `ValueError` for what is not a JSON object.
    """
    try:
        parsed = from_json(data, cache_strings="keys")
    except ValueError:
        parsed = _parse_damaged(data)
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - a fault of the text, like any other
    return parsed


def _parse_damaged(data: bytes) -> Any:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
        return from_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def as_dict(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """The value when it is text; the joined texts when it is a list of content parts; else empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(as_text(as_dict(part).get("text")) for part in value)
    return ""


def _arguments(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else as_text(value)


def _usage(usage: dict[str, Any]) -> Usage:
    cost = usage.get("cost")
    said = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MOST_USD
    usd = float(cost) if said else 0.0  # type: ignore[arg-type]
    return Usage(token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens")), usd)


def token_count(value: Any) -> int:
    """The value when it is a number of tokens that may be true, else 0."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
