"""Puts a streamed answer together from the events of the Anthropic protocol. Pure but for the delta sink."""

from __future__ import annotations

from typing import Any

from pentad.shared.models.assembly import AnswerAssembly
from pentad.shared.models.call_assembly import NAME_LENGTH
from pentad.shared.models.loose_values import as_dict, as_text, token_count
from pentad.shared.models.ports import DeltaSink, Usage
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


class MessageAssembly(AnswerAssembly):
    """One answer in the Anthropic protocol. `add` takes each event as parsed JSON."""

    protocol = "anthropic"
    __slots__ = ("_blocks", "_mixed", "_signed", "_spoken", "_tools", "_usage")

    def __init__(self, emit: DeltaSink) -> None:
        super().__init__(emit)
        self._tools: set[int] = set()
        self._blocks = 0
        self._signed = Fragments()
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
            self._start(chunk.get("index"), as_dict(chunk.get("content_block")))
        elif kind == "message_start":
            self._head(as_dict(chunk.get("message")))
        elif kind == "message_delta":
            self._finish(as_dict(chunk.get("delta")), chunk.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "message":
            self._whole(chunk)

    def _counted(self) -> Usage:
        read = sum(self._usage.get(name, 0) for name in _INPUT_NAMES)
        return Usage(read, self._usage.get("output_tokens", 0), cached_tokens=self._usage.get(_CACHED_NAME, 0))

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            text = delta.get("text")
            self._say(text if type(text) is str else as_text(text))
        elif kind == "thinking_delta":
            thought = as_text(delta.get("thinking"))
            self._think(thought)
            self._signed.add([{"type": "thinking", "index": index, "thinking": thought}])
        elif kind == "signature_delta":
            self._signed.add([{"type": "thinking", "index": index, "signature": delta.get("signature")}])
        elif kind == "input_json_delta" and type(index) is int and index in self._tools:
            self._calls.add({"index": index, "function": {"arguments": delta.get("partial_json")}})

    def _start(self, index: Any, block: dict[str, Any]) -> None:
        kind = block.get("type")
        self._blocks += kind != "tool_use"  # of calls the first are read
        if self._blocks > _MAX_BLOCKS:
            raise ValueError(f"it has more than {_MAX_BLOCKS} blocks")
        if kind in ("thinking", "redacted_thinking"):
            self._mixed = self._mixed or self._spoken
            self._think(as_text(block.get("thinking")))
            self._signed.add([{**block, "index": index}])
            return
        self._spoken = True
        if kind == "text":
            self._say(as_text(block.get("text")))
        elif kind == "tool_use" and type(index) is int:
            self._tools.add(index)
            # A block begins with an empty object, whose text follows in pieces; some servers send it whole.
            function = {"name": block.get("name"), "arguments": block.get("input") or None}
            self._calls.add({"index": index, "id": block.get("id"), "function": function})

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
        self._finish(message, None)
        self.ended = True
