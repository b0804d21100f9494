"""Puts a streamed answer together from the events of the Anthropic protocol. Pure but for the delta sink."""

from __future__ import annotations

from typing import Any

from pentad.shared.models.answer_text import CharacterJoiner
from pentad.shared.models.assembly import AnswerAssembly
from pentad.shared.models.call_assembly import NAME_LENGTH
from pentad.shared.models.loose_values import as_dict, as_text, token_count
from pentad.shared.models.ports import DeltaSink, ModelAnswer, Usage
from pentad.shared.models.thoughts import BLOCKS, Fragments

_MAX_BLOCKS = 10_000
"""Blocks that one answer may have."""
_CACHED_NAME = "cache_read_input_tokens"
_INPUT_NAMES = ("input_tokens", "cache_creation_input_tokens", _CACHED_NAME)
"""Counts whose sum is the number of tokens of the prompt; each is counted once."""
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "content_filter",
}
"""OpenAI's words for why an answer ended, by those of this protocol. An unknown reason keeps its own word."""


class _Opening:
    """The text that a block began with, until it is known whether the deltas of the block say it again."""

    __slots__ = ("_characters", "_repeated", "_text", "index", "kind")

    def __init__(self, kind: str, index: Any, text: str) -> None:
        self.kind, self.index = kind, index
        self._text = text
        self._characters = CharacterJoiner()
        self._repeated = 0
        """Characters of the opening that the deltas have said again so far."""

    def add(self, text: str) -> str:
        """Return what of the block is known after this delta; '' as long as it may all be said again."""
        text = self._characters.add(text)
        rest = len(self._text) - self._repeated
        if len(text) < rest and self._text.startswith(text, self._repeated):
            self._repeated += len(text)
            return ""
        if text.startswith(self._text[self._repeated :]):
            return self._text + text[rest:] + self._characters.held
        return self._text + self._text[: self._repeated] + text + self._characters.held

    def rest(self) -> str:
        """Return all that was said: the deltas went on from the opening."""
        return self._text + self._text[: self._repeated] + self._characters.held


class MessageAssembly(AnswerAssembly):
    """One answer in the Anthropic protocol. `add` takes each event as parsed JSON.

    A block begins empty and its deltas fill it. Some servers begin it with all that it has; of these, some say it in
    deltas once more.
    """

    protocol = "anthropic"
    __slots__ = (
        "_blocks",
        "_inputs",
        "_mixed",
        "_opening",
        "_signature",
        "_signed",
        "_spoken",
        "_thought_index",
        "_usage",
    )

    def __init__(self, emit: DeltaSink) -> None:
        super().__init__(emit)
        self._inputs: dict[int, Any] = {}
        """The arguments that the block of each tool call began with, by its index; None once deltas say them."""
        self._opening: _Opening | None = None
        self._blocks = 0
        self._signed = Fragments()
        self._signature: Any = None
        """The signature that a block of thoughts began with: it is added behind the thoughts, for it ends them."""
        self._thought_index: Any = None
        self._spoken = self._mixed = False
        """Whether other blocks than thoughts have come, and whether thoughts came after them."""
        self._usage: dict[str, int] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one event of a stream, or a whole message. Kinds that are not known are ignored, as the protocol asks.

        Raises `ValueError` for more blocks or tool calls than an answer may hold.
        """
        kind = chunk.get("type")
        if kind == "content_block_delta":
            self._delta(chunk.get("index"), as_dict(chunk.get("delta")))
        elif kind == "content_block_start":
            self._end_block()
            self._start(chunk.get("index"), as_dict(chunk.get("content_block")))
        elif kind == "content_block_stop":
            self._end_block()
            self._end_call(chunk.get("index"))
        elif kind == "message_start":
            self._head(as_dict(chunk.get("message")))
        elif kind == "message_delta":
            self._finish(as_dict(chunk.get("delta")), chunk.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "message":
            self._whole(chunk)

    def answer(self, model: str) -> ModelAnswer:
        """Return the whole answer, as `AnswerAssembly.answer` does, with what its last blocks began with."""
        self._end_block()
        for index in list(self._inputs):
            self._end_call(index)
        return super().answer(model)

    def _counted(self) -> Usage:
        read = sum(self._usage.get(name, 0) for name in _INPUT_NAMES)
        return Usage(read, self._usage.get("output_tokens", 0), cached_tokens=self._usage.get(_CACHED_NAME, 0))

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._add_text("text", index, as_text(delta.get("text")))
        elif kind == "thinking_delta":
            self._add_text("thinking", index, as_text(delta.get("thinking")))
        elif kind == "signature_delta":
            self._signature = None
            self._end_block()
            self._signed.add([{"type": "thinking", "index": index, "signature": delta.get("signature")}])
        elif kind == "input_json_delta":
            self._add_arguments(index, delta.get("partial_json"))

    def _add_text(self, kind: str, index: Any, text: str) -> None:
        """Take a delta of a block of text or thoughts."""
        opening = self._opening
        if opening is None:
            self._say_block(kind, index, text)
        elif (opening.kind, opening.index) != (kind, index):
            self._end_block()
            self._say_block(kind, index, text)
        elif known := opening.add(text):
            self._opening = None
            self._say_block(kind, index, known)

    def _say_block(self, kind: str, index: Any, text: str) -> None:
        if kind == "text":
            self._say(text)
        else:
            self._thought_index = index
            self._add_thought(self._thought_pieces.add(text))

    def _add_thought(self, thought: str) -> None:
        if thought:
            self._pass_thought(thought)
            self._signed.add([{"type": "thinking", "index": self._thought_index, "thinking": thought}])

    def _add_arguments(self, index: Any, piece: Any) -> None:
        if piece and type(index) is int and index in self._inputs:
            self._inputs[index] = None
            self._calls.add({"index": index, "function": {"arguments": piece}})

    def _start(self, index: Any, block: dict[str, Any]) -> None:
        kind = block.get("type")
        self._blocks += kind != "tool_use"  # of calls the first are read
        if self._blocks > _MAX_BLOCKS:
            raise ValueError(f"it has more than {_MAX_BLOCKS} blocks")
        if kind in ("thinking", "redacted_thinking"):
            self._mixed = self._mixed or self._spoken
            held = {}
            if kind == "thinking":
                self._signature, self._thought_index = block.get("signature"), index
                held = {"thinking": "", "signature": None}
            self._signed.add([{**block, "index": index} | held])
        else:
            self._spoken = True
        if kind in ("text", "thinking") and (text := as_text(block.get(kind))):
            self._opening = _Opening(kind, index, text)
        elif kind == "tool_use" and type(index) is int:
            self._inputs[index] = block.get("input") or None
            self._calls.add({"index": index, "id": block.get("id"), "function": {"name": block.get("name")}})

    def _end_block(self) -> None:
        """Pass on what a block of text or thoughts began with, when no delta says it again, and its signature."""
        if opening := self._opening:
            self._opening = None
            self._say_block(opening.kind, opening.index, opening.rest())
        if self._thought_index is not None:
            self._add_thought(self._thought_pieces.rest())
        if signature := self._signature:
            self._signature = None
            self._signed.add([{"type": "thinking", "index": self._thought_index, "signature": signature}])

    def _end_call(self, index: Any) -> None:
        """Take the arguments that a call's block began with, when no deltas have said them."""
        if type(index) is int:
            self._add_arguments(index, self._inputs.get(index))

    def _thoughts(self) -> dict[str, Any]:
        """Return the signed blocks; they must be given back as they came, and a transcript keeps no order among
        blocks."""
        blocks = [{k: v for k, v in block.items() if k != "index"} for block in self._signed.objects()]
        whole = all(block.get("signature") or block.get("data") for block in blocks)
        return {BLOCKS: blocks} if blocks and whole and not self._mixed else {}

    def _head(self, message: dict[str, Any]) -> None:
        self._model = self._model or as_text(message.get("model"))[:NAME_LENGTH]
        self._count(message.get("usage"))

    def _finish(self, delta: dict[str, Any], usage: Any) -> None:
        reason = as_text(delta.get("stop_reason"))[:NAME_LENGTH]
        self.finish_reason = _FINISH_REASONS.get(reason, reason) or self.finish_reason
        self._count(usage)

    def _count(self, usage: Any) -> None:
        """Take counts of tokens. Later counts replace earlier ones: they are those of the whole answer so far."""
        for name, value in as_dict(usage).items():
            if value is not None and (name in _INPUT_NAMES or name == "output_tokens"):
                self._usage[name] = token_count(value)

    def _whole(self, message: dict[str, Any]) -> None:
        """Take a whole message of a server that does not stream."""
        self._head(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            self._start(index, as_dict(block))
            self._end_block()
            self._end_call(index)
        self._finish(message, None)
        self.ended = True
