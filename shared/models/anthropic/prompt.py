"""A conversation in the form of the Anthropic protocol, from messages in OpenAI chat form. Pure: bytes in, bytes out.

There a conversation begins with the user, the roles take turns, no text is blank, and the results of tool calls are
blocks of the user's message that follows the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.immutable import immutable
from pentad.shared.models.loose_values import as_dict, as_text, parse_object
from pentad.shared.models.thoughts import signed_blocks

_FAILED = "error: "
"""What the result of a failed tool call begins with."""
_BEGINS = b'{"type":"text","text":"[The conversation goes on.]"}'
"""Stands where the protocol wants a user's message and there is none."""
_NO_PARAMETERS = {"type": "object", "properties": {}}


@immutable
class AnthropicPrompt:
    """A conversation. `system` and `messages` are the insides of JSON arrays."""

    system: bytes
    messages: bytes
    unsigned: bool
    """The assistant's last turn has called tools: its answer is under way, without the thoughts that it began with."""


@immutable
class _Said:
    """What one message says: blocks of a turn of `role`. Results come before all other blocks."""

    role: str
    results: tuple[bytes, ...] = ()
    blocks: tuple[bytes, ...] = ()
    unsigned: bool = False
    """It calls tools, and says nothing of the thoughts before that."""


def anthropic_prompt(messages: Sequence[bytes], model: str) -> AnthropicPrompt:
    """The conversation as `model` is sent it. Raises `ValueError` for a message that is not a JSON object."""
    system: list[bytes] = []
    turns = _Turns()
    for raw in messages:
        said = _said(raw, model)
        if said.role == "system" and turns.empty:
            system += said.blocks
        elif said.results or said.blocks:
            turns.add(said)
    return AnthropicPrompt(b",".join(system), b",".join(turns.messages()), turns.unsigned)


@lru_cache(maxsize=8)
def anthropic_tools(tools: bytes) -> bytes:
    """The tools, a JSON array, from a JSON array in OpenAI form."""
    listed = from_json(tools)
    return to_json([_tool(as_dict(as_dict(entry).get("function"))) for entry in listed])


class _Turns:
    """Puts what is said one after the other into turns."""

    def __init__(self) -> None:
        self._closed: list[bytes] = []
        self._role = "user"
        self._results: list[bytes] = []
        self._blocks: list[bytes] = []
        self.empty = True
        self.unsigned = False

    def add(self, said: _Said) -> None:
        role = "assistant" if said.role == "assistant" else "user"
        if role != self._role:
            self._turn(role)
        if role == "assistant":
            self.unsigned = said.unsigned
        self._results += said.results
        self._blocks += said.blocks
        self.empty = False

    def messages(self) -> list[bytes]:
        """All turns. The last is the user's: a model is asked to go on with no turn of its own."""
        if self._role == "assistant":
            self._turn("user")
        self._close()
        return self._closed

    def _turn(self, role: str) -> None:
        self._close()
        self._role = role

    def _close(self) -> None:
        blocks = b",".join([*self._results, *self._blocks]) or _BEGINS
        self._closed.append(b'{"role":"%s","content":[%s]}' % (self._role.encode(), blocks))
        self._results, self._blocks = [], []


def _said(raw: bytes, model: str) -> _Said:
    message = parse_object(raw)
    role, content = as_text(message.get("role")), as_text(message.get("content"))
    if role == "tool":
        return _Said(role, results=(_result(as_text(message.get("tool_call_id")), content),))
    blocks = [b'{"type":"text","text":%s}' % to_json(content)] if content.strip() else []
    calls = message.get("tool_calls") if role == "assistant" else None
    if calls and isinstance(calls, list):
        blocks += [_call(as_dict(call)) for call in calls]
        signed = [to_json(block) for block in signed_blocks(message, model)]
        return _Said(role, blocks=(*signed, *blocks), unsigned=not signed)
    return _Said(role, blocks=tuple(blocks))


def _result(call_id: str, content: str) -> bytes:
    told = b',"content":' + to_json(content) if content.strip() else b""
    failed = b',"is_error":true' if content.startswith(_FAILED) else b""
    return b'{"type":"tool_result","tool_use_id":%s%s%s}' % (to_json(call_id), told, failed)


def _call(call: dict[str, Any]) -> bytes:
    function = as_dict(call.get("function"))
    return b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % (
        to_json(as_text(call.get("id"))),
        to_json(as_text(function.get("name"))),
        _input(as_text(function.get("arguments"))),
    )


def _input(arguments: str) -> bytes:
    """The arguments as they are; what is no JSON object, as text within one."""
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
