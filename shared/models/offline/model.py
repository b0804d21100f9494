"""The offline model, a labelled stand-in for machines without a model: it has rules and no knowledge, and always
gives the same answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from pentad.contracts.quotes import quotes_in
from pentad.contracts.tools import RESERVED_NAMES
from pentad.shared.models.loose_values import as_dict, as_text
from pentad.shared.models.offline.forms import fitting, form_of, judgement_of, observed, tools_in_words
from pentad.shared.models.offline.intents import Before, Wish, first_lines, plain_number, wishes
from pentad.shared.models.offline.memory import from_conversation, from_earlier_answer, from_memory, recalled_of
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelAnswer, ToolCallDraft, Usage

OFFLINE = "offline"
_HONEST = (
    "I am Pentad's offline model, a small rule-based stand-in: I can do sums, tell the time and echo text with the "
    "tools I am offered, and quote what I was told in earlier tasks, but I cannot hold a real conversation. Set "
    "LLM_BASE_URL and LLM_API_KEY (and LLM_MODEL_ID) to talk to a real model."
)
_HONEST_ZH = (
    "我是 Pentad 的离线模型(offline model),只按简单规则工作:可以用所给的工具做算术、报时间、回显文字,"
    "引用以前任务里听到的话,不能真正对话。"
    "请设置 LLM_BASE_URL 和 LLM_API_KEY(以及 LLM_MODEL_ID)来使用真正的模型。"
)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_RESULT_LIMIT = 2000
_MAX_LOOP_BYTES = 65_536
"""Bytes of a prompt that is read in the event loop; a longer one is read in a thread, beside which other tasks run."""


class OfflineModel:
    """A chat model that answers from the messages and tools of the request alone."""

    @property
    def name(self) -> str:
        """The name `offline`."""
        return OFFLINE

    @property
    def learned(self) -> tuple[str, ...]:
        """No changes: there is no server that could refuse anything."""
        return ()

    @property
    def window(self) -> None:
        """No window: the model reads prompts of any length."""
        return None

    @property
    def place(self) -> None:
        """No address: the model runs in this process."""
        return None

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        """Answer as `ChatModel.stream` says. This never fails."""
        large = sum(map(len, request.messages)) > _MAX_LOOP_BYTES
        text, calls = await asyncio.to_thread(_answer, request) if large else _answer(request)
        for piece in _pieces(text):
            on_delta("content", piece)
            await asyncio.sleep(0)  # lets others run, and a cancel through
        drafts = tuple(ToolCallDraft(name, json.dumps(args, ensure_ascii=False)) for name, args in calls)
        written = len(text) + sum(len(draft.arguments) for draft in drafts)
        usage = Usage(sum(map(len, request.messages)) // 4, written // 4 + 1)
        return ModelAnswer(text, "", drafts, "tool_calls" if drafts else "stop", usage, self.name)

    def warm(self) -> None:
        """Do nothing: there is nothing to prepare."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A call of an earlier turn with its result."""

    name: str
    args: dict[str, Any]
    result: str


def _answer(request: ChatRequest) -> tuple[str, list[Wish]]:
    messages = [_object(message) for message in request.messages]
    system = as_text(messages[0].get("content")) if messages else ""
    judgement = judgement_of(system, as_text(messages[-1].get("content")) if messages else "")
    if judgement is not None:
        return judgement, []
    told = tools_in_words(system)
    if told is not None:
        return _in_words(messages, told), []
    text, calls = _decide(messages, _offered(request.tools))
    form = form_of(system)
    return (text, calls) if calls or form is None else (json.dumps(fitting(form, text), ensure_ascii=False), [])


def _in_words(messages: Sequence[dict[str, Any]], tools: Mapping[str, Mapping[str, Any]]) -> str:
    """Return an answer whose call, if it makes one, is written as text."""
    result = observed(as_text(messages[-1].get("content")))
    text, calls = (result, []) if result is not None else _decide(messages, tools)
    if not calls:
        return f"Thought: I know it.\nFinal Answer: {text}"
    name, args = calls[0]
    return f"Thought: I use a tool.\nAction: {name}\nAction Input: {json.dumps(args, ensure_ascii=False)}"


def _decide(messages: Sequence[dict[str, Any]], tools: Mapping[str, Mapping[str, Any]]) -> tuple[str, list[Wish]]:
    """Return the text to say and the tools to ask for: new results come first, then the requests of users since the
    last answer."""
    fresh = _since_last_answer(messages)
    results = [outcome for outcome in _outcomes(messages, fresh) if outcome.name not in RESERVED_NAMES]
    earlier, users = _said_by_user(messages[:fresh]), _said_by_user(messages[fresh:])
    before = _before(messages)
    calls = [wish for text in users for wish in wishes(text, tools, before)]
    told = first_lines([_result_text(outcome) for outcome in results], _RESULT_LIMIT)
    if told or calls:
        return told, calls
    recalled, own = recalled_of(messages), _said_by_model(messages[:fresh])
    known = [
        answer
        for text in users
        if (answer := from_conversation(text, earlier) or from_memory(text, recalled) or from_earlier_answer(text, own))
    ]
    if known:
        return first_lines(known, _RESULT_LIMIT), []
    return (_HONEST_ZH if any(map(_CHINESE.search, users)) else _HONEST), []


def _said_by_user(messages: Sequence[dict[str, Any]]) -> list[str]:
    texts = (as_text(message.get("content")) for message in messages if message.get("role") == "user")
    return [text for text in texts if not quotes_in(text)]


def _said_by_model(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [as_text(message.get("content")) for message in messages if message.get("role") == "assistant"]


def _since_last_answer(messages: Sequence[dict[str, Any]]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "assistant":
            return index + 1
    return 0


def _outcomes(messages: Sequence[dict[str, Any]], start: int) -> list[_Outcome]:
    """Return the results from `start` on, joined with the calls of the assistant message just before."""
    asked = dict(_calls(messages[start - 1])) if start else {}
    outcomes = []
    for message in messages[start:]:
        if message.get("role") == "tool":
            name, args = asked.get(as_text(message.get("tool_call_id")), ("tool", {}))
            outcomes.append(_Outcome(name, args, as_text(message.get("content"))))
    return outcomes


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, Wish]]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = as_dict(as_dict(call).get("function"))
        yield as_text(as_dict(call).get("id")), (as_text(function.get("name")), _object(function.get("arguments")))


def _before(messages: Sequence[dict[str, Any]]) -> Before:
    """Return the last call with its number, if any, of the newest assistant message that called a tool."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("tool_calls") and (calls := list(_calls(messages[index]))):
            numbers = [plain_number(outcome.result) for outcome in _outcomes(messages, index + 1)[: len(calls)]]
            known = [number for number in numbers if number is not None]
            return Before(calls[-1][1], known[-1] if known else None)
    return Before()


def _result_text(outcome: _Outcome) -> str:
    error = _error(outcome.result)
    if error is not None:
        error = error.removeprefix(f"{outcome.name}: ")
    if outcome.name == "calculator" and (expression := as_text(outcome.args.get("expression"))):
        number = plain_number(outcome.result) or outcome.result.strip()
        return f"{expression} = {number}" if error is None else f"{expression} could not be calculated: {error}"
    if error is not None:
        return f"The tool {outcome.name} failed: {error}"
    if outcome.name == "get_time":
        zone = outcome.args.get("timezone")
        return f"It is {outcome.result.strip()}" + (f" ({zone})" if zone else "")
    return outcome.result if outcome.name == "echo" else f"{outcome.name}: {outcome.result}"


def _error(result: str) -> str | None:
    """Return the reason when a result says, in one of the usual spellings, that the call failed; else None."""
    said = _object(result).get("error")
    if said:
        return as_text(said) or json.dumps(said, ensure_ascii=False)
    match = re.match(r"\s*error\b[\s:]*(.*)", result, re.IGNORECASE | re.DOTALL)
    return (match[1].strip() or "no reason given") if match else None


def _offered(tools: bytes | None) -> dict[str, Mapping[str, Any]]:
    listed = _json(tools)
    functions = [as_dict(as_dict(tool).get("function")) for tool in (listed if isinstance(listed, list) else ())]
    return {as_text(function.get("name")): as_dict(function.get("parameters")) for function in functions}


def _object(data: Any) -> dict[str, Any]:
    return as_dict(_json(data))


def _json(data: Any) -> Any:
    try:
        return from_json(data) if isinstance(data, str | bytes) else data
    except ValueError:
        return None


def _pieces(text: str) -> list[str]:
    """Return the text in about four parts, cut between words."""
    size = max(1, -(-len(text) // 4))
    return re.findall(rf".{{1,{size}}}(?:\S*\s|\S{{0,20}}$)?", text, re.DOTALL)
