"""Whether Anthropic's server would take a request: the rules of its protocol that it refuses breaches of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_FIELDS = frozenset(
    "cache_control max_tokens messages metadata model output_config stop_sequences stream system temperature thinking "
    "tool_choice tools top_k top_p".split()
)
_OF_ROLE = {"user": {"text", "tool_result"}, "assistant": {"text", "tool_use", "thinking", "redacted_thinking"}}
_MOST_MARKS = 4


def request_fault(body: Mapping[str, Any]) -> str:
    """What the server would say of this request; '' when it would take it."""
    return next(_faults(body), "")


def _faults(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name}: Extra inputs are not permitted" for name in sorted(body.keys() - _FIELDS))
    if not isinstance(body.get("model"), str) or type(body.get("max_tokens")) is not int:
        yield "model and max_tokens: Field required"
    for block in _blocks(body.get("system") or ()):
        yield from _text_faults("system", block)
    yield from _tool_faults(body.get("tools") or [])
    messages = body.get("messages")
    if not messages:
        yield "messages: at least one message is required"
        return
    yield from _turn_faults(messages)
    yield from _pairing_faults(messages)
    yield from _thinking_faults(body, messages)
    if not body.get("tools") and any(_mentions_tools(message) for message in messages):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools."
    if sum(1 for _ in _marks(body)) > _MOST_MARKS:
        yield "A maximum of 4 blocks with cache_control may be provided"


def _turn_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, message in enumerate(messages):
        role = "assistant" if number % 2 else "user"
        if message["role"] != role:
            yield f"messages.{number}: roles must alternate, beginning with the user"
        if not message["content"]:
            yield f"messages.{number}: all messages must have non-empty content"
        for block in _blocks(message["content"]):
            if block["type"] not in _OF_ROLE[message["role"]]:
                yield f"messages.{number}: {block['type']} in a message of {message['role']}"
            if block["type"] == "text":
                yield from _text_faults(f"messages.{number}", block)
    if messages[-1]["role"] != "user":
        yield "This model does not support assistant message prefill"


def _pairing_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    due: list[str] = []
    for number, message in enumerate(messages):
        blocks = _blocks(message["content"])
        results = [block for block in blocks if block["type"] == "tool_result"]
        if results != list(blocks[: len(results)]):
            yield f"messages.{number}: tool_result blocks must come first"
        if [block["tool_use_id"] for block in results] != due:
            yield f"messages.{number}: `tool_use` ids {due} need their `tool_result` blocks immediately after"
        if any(isinstance(block.get("content"), str) and not block["content"] for block in results):
            yield f"messages.{number}: empty tool_result"
        calls = [block for block in blocks if block["type"] == "tool_use"]
        due = [block["id"] for block in calls]
        if seen.intersection(due) or len(set(due)) < len(due):
            yield f"messages.{number}: `tool_use` ids must be unique"
        seen.update(due)
        for block in calls:
            if not (_ID.fullmatch(block["id"]) and _NAME.fullmatch(block["name"]) and isinstance(block["input"], dict)):
                yield f"messages.{number}: {block} is not a tool_use"
    if due:
        yield "`tool_use` ids without `tool_result` blocks at the end"


def _thinking_faults(body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    last: Sequence[Mapping[str, Any]] = next(
        (_blocks(m["content"]) for m in reversed(messages) if m["role"] == "assistant"), []
    )
    if any(block["type"] == "tool_use" for block in last) and last[0]["type"] != "thinking":
        yield "Expected `thinking` or `redacted_thinking`, but found `tool_use`"


def _mentions_tools(message: Mapping[str, Any]) -> bool:
    return any(block["type"] in ("tool_use", "tool_result") for block in _blocks(message["content"]))


def _blocks(content: Any) -> Sequence[Mapping[str, Any]]:
    """A text alone is the short form of one block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text_faults(where: str, block: Mapping[str, Any]) -> Iterator[str]:
    if not block["text"].strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def _tool_faults(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len({tool["name"] for tool in tools}) < len(tools):
        yield "tools: Tool names must be unique."
    for number, tool in enumerate(tools):
        if tool.keys() - {"name", "description", "input_schema", "cache_control", "strict"}:
            yield f"tools.{number}: Extra inputs are not permitted"
        if not _NAME.fullmatch(tool["name"]) or tool["input_schema"].get("type") != "object":
            yield f"tools.{number}: name or input_schema.type"


def _marks(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if "cache_control" in value:
            yield value["cache_control"]
        value = [inner for name, inner in value.items() if name != "input"]
    if isinstance(value, list):
        for inner in value:
            yield from _marks(inner)
