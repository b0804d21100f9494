"""Turns a conversation in OpenAI chat form into that of the Anthropic protocol. Pure: bytes in, bytes out.

In this protocol a conversation begins with the user, the roles take turns, no text is blank, and the results of tool
calls are blocks of the user's message that follows the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.immutable import immutable
from pentad.shared.models.loose_values import as_dict, as_text, parse_object
from pentad.shared.models.thoughts import signed_blocks

_DATA = "data:"
"""The beginning of a data URL."""
_ERROR_PREFIX = "error: "
"""The text with which the result of a failed tool call begins."""
_FILLER_BLOCK = b'{"type":"text","text":"[The conversation goes on.]"}'
"""The block that stands where the protocol wants a user's message and there is none."""
_NO_PARAMETERS = {"type": "object", "properties": {}}


@immutable
class AnthropicPrompt:
    """A conversation. `system` and `messages` are the insides of JSON arrays."""

    system: bytes
    messages: bytes
    called: tuple[str, ...]
    """Names of the tools that the conversation calls, each once."""
    unsigned: bool
    """Whether the assistant's last turn has called tools without signed thoughts: its answer is under way, without
    the thoughts with which it began."""


@immutable
class _Content:
    """The content of one message: blocks of a turn of `role`. Results come before all other blocks."""

    role: str
    results: tuple[bytes, ...] = ()
    blocks: tuple[bytes, ...] = ()
    called: tuple[str, ...] = ()
    unsigned: bool = False
    """Whether the message calls tools without the signed thoughts before the calls."""


def anthropic_prompt(messages: Sequence[bytes], model: str) -> AnthropicPrompt:
    """Return the conversation as `model` is sent it. Raises `ValueError` for a message that is not a JSON object."""
    system: list[bytes] = []
    turns = _Turns()
    for raw in messages:
        said = _content_of(raw, model)
        if said.role == "system" and turns.empty:
            system += said.blocks
        elif said.results or said.blocks:
            turns.add(said)
    return AnthropicPrompt(b",".join(system), b",".join(turns.messages()), tuple(turns.called), turns.unsigned)


@lru_cache(maxsize=8)
def anthropic_tools(tools: bytes) -> bytes:
    """Return the tools as a JSON array of this protocol, from a JSON array in OpenAI form."""
    listed = from_json(tools)
    return to_json([_tool(as_dict(as_dict(entry).get("function"))) for entry in listed])


def bare_tools(names: Sequence[str]) -> bytes:
    """Return tools of these names as a JSON array of this protocol. They say nothing of themselves.

    They stand beside a conversation with calls where no tools are offered: servers (Bedrock's, and Anthropic's of
    earlier versions) refuse one that calls tools which the request does not define.
    """
    return to_json([_tool({"name": name}) for name in names])


class _Turns:
    """Joins the messages of one role that follow each other into turns."""

    def __init__(self) -> None:
        self._closed: list[bytes] = []
        self._role = "user"
        self._results: list[bytes] = []
        self._blocks: list[bytes] = []
        self.called: dict[str, None] = {}
        self.empty = True
        self.unsigned = False

    def add(self, said: _Content) -> None:
        role = "assistant" if said.role == "assistant" else "user"
        if role != self._role:
            self._turn(role)
        if role == "assistant":
            self.unsigned = said.unsigned
        self.called |= dict.fromkeys(said.called)
        self._results += said.results
        self._blocks += said.blocks
        self.empty = False

    def messages(self) -> list[bytes]:
        """Return all turns. The last is the user's: a model is not asked to continue a turn of its own."""
        if self._role == "assistant":
            self._turn("user")
        self._close()
        return self._closed

    def _turn(self, role: str) -> None:
        self._close()
        self._role = role

    def _close(self) -> None:
        blocks = b",".join([*self._results, *self._blocks]) or _FILLER_BLOCK
        self._closed.append(b'{"role":"%s","content":[%s]}' % (self._role.encode(), blocks))
        self._results, self._blocks = [], []


def _content_of(raw: bytes, model: str) -> _Content:
    message = parse_object(raw)
    role, content = as_text(message.get("role")), as_text(message.get("content"))
    parts = message.get("content")
    if isinstance(parts, list) and any(as_dict(part).get("type") == "image_url" for part in parts):
        return _Content(role, blocks=tuple(block for part in parts if (block := _part(as_dict(part)))))
    if role == "tool":
        return _Content(role, results=(_result(as_text(message.get("tool_call_id")), content),))
    blocks = [b'{"type":"text","text":%s}' % to_json(content)] if content.strip() else []
    calls = message.get("tool_calls") if role == "assistant" else None
    if calls and isinstance(calls, list):
        blocks += [_call(as_dict(call)) for call in calls]
        called = tuple(as_text(as_dict(as_dict(call).get("function")).get("name")) for call in calls)
        signed = [to_json(block) for block in signed_blocks(message, model)]
        return _Content(role, blocks=(*signed, *blocks), called=called, unsigned=not signed)
    return _Content(role, blocks=tuple(blocks))


def _part(part: dict[str, Any]) -> bytes:
    """Return a part of a message as a block; b'' for one that is neither text nor an image as a data URL."""
    text = as_text(part.get("text"))
    if part.get("type") == "text":
        return b'{"type":"text","text":%s}' % to_json(text) if text.strip() else b""
    head, comma, data = as_text(as_dict(part.get("image_url")).get("url")).partition(";base64,")
    if part.get("type") != "image_url" or not comma or not head.startswith(_DATA):
        return b""
    source = {"type": "base64", "media_type": head.removeprefix(_DATA), "data": data}
    return b'{"type":"image","source":%s}' % to_json(source)


def _result(call_id: str, content: str) -> bytes:
    told = b',"content":' + to_json(content) if content.strip() else b""
    failed = b',"is_error":true' if content.startswith(_ERROR_PREFIX) else b""
    return b'{"type":"tool_result","tool_use_id":%s%s%s}' % (to_json(call_id), told, failed)


def _call(call: dict[str, Any]) -> bytes:
    function = as_dict(call.get("function"))
    return b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % (
        to_json(as_text(call.get("id"))),
        to_json(as_text(function.get("name"))),
        _arguments(as_text(function.get("arguments"))),
    )


def _arguments(arguments: str) -> bytes:
    """Return the arguments as they are; arguments that are no JSON object, as a text within one."""
    try:
        if not arguments.strip():
            return b"{}"
        if isinstance(from_json(arguments, allow_inf_nan=False), dict):
            return arguments.encode()
    except ValueError:
        pass
    return to_json({"unreadable": arguments})


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    schema = {**_NO_PARAMETERS, **as_dict(function.get("parameters")), "type": "object"}
    described = {"name": as_text(function.get("name")), "description": as_text(function.get("description"))}
    return {key: value for key, value in described.items() if value} | {"input_schema": schema}
