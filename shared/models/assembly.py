"""Puts a streamed answer together from its chunks: the part that all protocols share, and that of OpenAI's protocol.

Pure but for the delta sink; no server's habits are known beyond this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pentad.shared.models.answer_text import AnswerText
from pentad.shared.models.call_assembly import NAME_LENGTH, ToolCallAssembly
from pentad.shared.models.loose_values import as_dict, as_text, token_count
from pentad.shared.models.ports import DeltaSink, ModelAnswer, Usage
from pentad.shared.models.think_tags import Part, ThinkTags
from pentad.shared.models.thoughts import REASONING, Fragments, kept

_MAX_USD = 1e6
"""US dollars that one answer may say that it cost. A larger number is a mistake of the server, and is ignored."""
_FINISH_REASONS = {
    word: said
    for said, words in {
        "": "null none finish_reason_unspecified",
        "stop": "stop end_turn stop_sequence eos eos_token complete",
        "tool_calls": "tool_calls tool_call tool_use function_call",
        "length": "length max_tokens max_output_tokens max_length model_length token_limit incomplete error_limit "
        "model_context_window_exceeded",
        "content_filter": "content_filter content_filtered sensitive safety recitation blocklist prohibited_content "
        "spii language refusal guardrail_intervened error_toxic",
    }.items()
    for word in words.split()
}
"""OpenAI's words for why an answer ended, by those of other servers. An unknown reason keeps its own word."""
_INPUT_NAMES = ("prompt_tokens", "input_tokens")
_OUTPUT_NAMES = ("completion_tokens", "output_tokens")
"""Names that servers give to the tokens of the prompt and of the answer; OpenAI's names come first."""
_CACHED_NAMES = ("cached_tokens", "prompt_cache_hit_tokens")
"""Names under which Moonshot's and DeepSeek's servers count cached tokens; OpenAI's counts them in details."""
_BROKEN_REASONS = frozenset({"error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource"})
"""Finish reasons of answers that the model could not finish: OpenRouter's, vLLM's, Zhipu's and DeepSeek's."""
_CUT_REASONS = ("length", "content_filter")
"""Finish reasons of answers of which something is missing. No later reason makes such an answer whole."""
_USUAL_FIELDS = frozenset({"content", "role", "tool_calls"})
"""Fields that most deltas have, and that are read first."""
_REASONING_FIELDS = (REASONING, "reasoning")
"""Fields that hold reasoning: first that of DeepSeek and most others, then that of Ollama, vLLM and OpenRouter."""
_DETAILS_FIELD = "reasoning_details"
_SIGNED_FIELDS = (_DETAILS_FIELD, "thinking_blocks")
"""Fields that hold signed reasoning: OpenRouter's, and that of LiteLLM's proxy."""


class AnswerAssembly(ABC):
    """One answer as far as it has come, whatever its protocol. Its text goes on to the sink at once."""

    protocol: ClassVar[str]
    """The protocol's name: thoughts are sent back in the protocol in which they came."""
    __slots__ = (
        "_calls",
        "_emit",
        "_model",
        "_text",
        "_text_pieces",
        "_thinking",
        "_thought_pieces",
        "ended",
        "finish_reason",
    )

    def __init__(self, emit: DeltaSink) -> None:
        self._emit = emit
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._text_pieces, self._thought_pieces = AnswerText(), AnswerText()
        self._calls = ToolCallAssembly()
        self._model = ""
        self.finish_reason = ""
        """The finish reason in OpenAI's words; empty until the answer is whole."""
        self.ended = False
        """Whether the last event has come."""

    @property
    def empty(self) -> bool:
        """Whether nothing of an answer has come."""
        return not (self._text or self._thinking or self._calls)

    @abstractmethod
    def add(self, chunk: dict[str, Any]) -> None:
        """Take one event of a stream, or a whole answer. Raises `ValueError` for more than an answer may hold."""

    @abstractmethod
    def _counted(self) -> Usage:
        """Return the tokens as the server counted them."""

    @abstractmethod
    def _thoughts(self) -> dict[str, Any]:
        """Return the fields that the model must be sent back with this answer's tool calls."""

    def answer(self, model: str) -> ModelAnswer:
        """Return the whole answer. ``model`` is the id that was asked for, used where the server names none."""
        self._pass_thought(self._thought_pieces.rest())
        self._pass_text(self._text_pieces.rest())
        calls = self._calls.drafts()
        return ModelAnswer(
            text="".join(self._text),
            thinking="".join(self._thinking),
            tool_calls=calls,
            finish_reason=self.finish_reason or ("tool_calls" if calls else "stop"),
            usage=self._counted(),
            model=self._model or model,
            thoughts=self._kept(model) if calls else None,
            too_many_calls=self._calls.too_many,
            whole_calls=self._calls.whole if calls else None,
            finish_said=bool(self.finish_reason),
        )

    def _kept(self, model: str) -> dict[str, Any] | None:
        extras = self._calls.extras() if self._calls.signed else ()
        return kept(self.protocol, model, self._thoughts(), extras, self._calls.ids())

    def _say(self, piece: str) -> None:
        """Take a piece of the text."""
        self._pass_text(self._text_pieces.add(piece))

    def _think(self, piece: str) -> None:
        """Take a piece of the thoughts."""
        self._pass_thought(self._thought_pieces.add(piece))

    def _pass_text(self, text: str) -> None:
        """Keep text that is new, and show it."""
        if text:
            self._text.append(text)
            self._emit("content", text)

    def _pass_thought(self, text: str) -> None:
        """Keep a thought that is new, and show it."""
        if text:
            self._thinking.append(text)
            self._emit("thinking", text)


class Assembly(AnswerAssembly):
    """One answer in the OpenAI protocol. `add` takes each chunk as parsed JSON.

    ``tags``: where the model writes its thoughts into the text, what tells them apart.
    """

    protocol = "openai"
    __slots__ = ("_lists", "_reasoned", "_refused", "_tags", "_usage")

    def __init__(self, emit: DeltaSink, tags: ThinkTags | None = None) -> None:
        super().__init__(emit)
        self._tags = tags
        self._usage: dict[str, Any] = {}
        self._reasoned = ""
        """The field in which reasoning comes; '' while there is none."""
        self._lists: dict[str, Fragments] = {}
        self._refused = False

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one chunk of a stream, or a whole answer that was not streamed."""
        if not self._model:
            self._model = as_text(chunk.get("model"))[:NAME_LENGTH]
        choices = chunk.get("choices")
        choice = choices[0] if choices and isinstance(choices, list) and isinstance(choices[0], dict) else None
        usage = chunk.get("usage") or (choice or {}).get("usage") or as_dict(chunk.get("x_groq")).get("usage")
        if usage and isinstance(usage, dict):  # beside the choices; Moonshot's in the choice; Groq's in its own field
            self._usage = usage
        if choice is not None:
            self._choice(choice)

    def answer(self, model: str) -> ModelAnswer:
        """Return the whole answer, as `AnswerAssembly.answer` does, with the text that was held back for a tag."""
        if self._tags is not None:
            self._pass_text(self._text_pieces.rest())
            self._pass_parts(self._tags.rest())
        return super().answer(model)

    def _pass_text(self, text: str) -> None:
        if self._tags is None:
            super()._pass_text(text)
        else:
            self._pass_parts(self._tags.split(text))

    def _pass_parts(self, parts: list[Part]) -> None:
        for kind, text in parts:
            (self._pass_thought if kind == "thinking" else super()._pass_text)(text)

    def _choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index"):  # asked for one answer: what belongs to a second is not ours
            return
        if isinstance(delta := choice.get("delta"), dict) and delta:
            self._delta(delta)
        elif isinstance(message := choice.get("message"), dict):
            self._message(message)
        if reason := choice.get("finish_reason"):
            self._finish(as_text(reason)[:NAME_LENGTH])

    def _message(self, message: dict[str, Any]) -> None:
        """Read a whole message: the answer where nothing was streamed; else what some servers repeat at the end, of
        which only what has not come is read."""
        done = (("content", self._text), *((name, self._thinking) for name in _REASONING_FIELDS))
        come = {name for name, pieces in done if pieces} | ({"tool_calls"} if self._calls else set())
        self._delta({name: value for name, value in message.items() if name not in come})

    def _finish(self, reason: str) -> None:
        known = reason.lower()
        if known in _BROKEN_REASONS:
            raise ValueError(f"its server gave up (finish_reason {reason})")
        said = _FINISH_REASONS.get(known, reason)
        if said and self._refused:
            said = "content_filter"
        if self.finish_reason not in _CUT_REASONS:  # a proxy may close a cut answer with a "stop" of its own
            self.finish_reason = said or self.finish_reason

    def _delta(self, delta: dict[str, Any]) -> None:
        if not delta.keys() <= _USUAL_FIELDS:
            self._read_other_fields(delta)
        if content := delta.get("content"):
            self._say(content if type(content) is str else self._of_parts(content))
        if (calls := delta.get("tool_calls")) and isinstance(calls, list):
            several = len(calls) > 1
            for call in calls:
                self._calls.add(call, several)
            if several:
                self._calls.end_delta()

    def _of_parts(self, content: Any) -> str:
        """Return the text of a content in parts, and pass on the thoughts within it."""
        if isinstance(content, list):
            self._think("".join(as_text(as_dict(part).get("thinking")) for part in content))
        return as_text(content)

    def _read_other_fields(self, delta: dict[str, Any]) -> None:
        """Read the fields of a delta that are neither its text nor its calls."""
        self._reason(delta)
        if refusal := as_text(delta.get("refusal")):
            self._refused = True
            self._say(refusal)
        if isinstance(function := delta.get("function_call"), dict):  # of the time before there were several
            self._calls.add({"index": 0, "function": function})

    def _reason(self, delta: dict[str, Any]) -> None:
        for name in _REASONING_FIELDS:
            if (thought := delta.get(name)) is not None:
                self._reasoned = self._reasoned or name
                if thought:
                    self._think(thought if type(thought) is str else as_text(thought))
                    break
        for name in _SIGNED_FIELDS:
            if pieces := delta.get(name):
                self._lists.setdefault(name, Fragments()).add(pieces)

    def _thoughts(self) -> dict[str, Any]:
        if not (self._lists or self._reasoned):
            return {}
        fields: dict[str, Any] = {name: listed.objects() for name, listed in self._lists.items()}
        if self._reasoned and _DETAILS_FIELD not in fields:  # these say the same, with their signatures
            fields[self._reasoned] = "".join(self._thinking) or " "
        return fields

    def _counted(self) -> Usage:
        return _usage(self._usage)


def _usage(usage: dict[str, Any]) -> Usage:
    cost = usage.get("cost")
    said = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MAX_USD
    usd = float(cost) if said else 0.0  # type: ignore[arg-type]
    read, written = (_first_count(usage, names) for names in (_INPUT_NAMES, _OUTPUT_NAMES))
    details = (as_dict(usage.get(f"{name}_details")).get("cached_tokens") for name in _INPUT_NAMES)
    cached = (*details, *map(usage.get, _CACHED_NAMES))
    known = next((count for count in map(token_count, cached) if count), 0)
    return Usage(read, written, usd, min(read, known))


def _first_count(usage: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((count for count in map(token_count, map(usage.get, names)) if count), 0)
