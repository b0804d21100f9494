"""Changes messages into the forms that model servers take: alternating turns, no system message, no calls of tools.
Pure.

Templates of Mistral's and Gemma's kind raise "roles must alternate" and "System role not supported", and their
servers (llama.cpp's, vLLM, SGLang) refuse the request. A prompt has user messages in a row: recalled memories, and
messages that the user adds while a task works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.models.loose_values import as_dict, as_text

_USER, _SYSTEM, _TOOL = b'{"role":"user"', b'{"role":"system"', b'{"role":"tool"'
_ASSISTANT = b'{"role":"assistant"'
_NULL, _EMPTY = _ASSISTANT + b',"content":null', _ASSISTANT + b',"content":""'
_CALLS = b',"tool_calls":['
_NO_TEXT = b',"content":"(no text)"'


def alternating(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages, ready JSON, with user messages that stand in a row joined to one."""
    joined: list[bytes] = []
    row: list[bytes] = []
    for line in messages:
        if line.startswith(_USER):
            row.append(line)
            continue
        joined += [*_as_one(row), line]
        row.clear()
    return joined + _as_one(row)


def without_system(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with the system's text at the beginning of the first user message."""
    said = [line for line in messages if line.startswith(_SYSTEM)]
    others = [line for line in messages if not line.startswith(_SYSTEM)]
    if not said:
        return others
    first = 1 if others and others[0].startswith(_USER) else 0
    return [_joined([*said, *others[:first]]), *others[first:]]


def calls_as_text(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with calls of tools and their results as plain text of the assistant and the user."""
    names: dict[str, str] = {}
    return [_as_text(line, names) if line.startswith(_TOOL) or _CALLS in line else line for line in messages]


def without_nulls(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with empty text where an answer that calls tools has none."""
    return [_EMPTY + line[len(_NULL) :] if line.startswith(_NULL) else line for line in messages]


def without_empty_text(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages with a text in each of the assistant's."""
    return [_filled(line) for line in messages]


def _filled(line: bytes) -> bytes:
    empty = next((begin for begin in (_NULL, _EMPTY) if line.startswith(begin)), None)
    return line if empty is None else _ASSISTANT + _NO_TEXT + line[len(empty) :]


def _as_text(line: bytes, names: dict[str, str]) -> bytes:
    message = from_json(line)
    text = as_text(message.get("content"))
    if message.get("role") == "tool":
        name = names.get(as_text(message.get("tool_call_id")), "the tool")
        return to_json({"role": "user", "content": f"[{name} has answered] {text}"})
    calls = [as_dict(call) for call in message.get("tool_calls") or ()]
    names.update({as_text(call.get("id")): as_text(as_dict(call.get("function")).get("name")) for call in calls})
    return to_json({"role": "assistant", "content": "\n".join([*filter(None, [text]), *map(_call_text, calls)])})


def _call_text(call: dict[str, Any]) -> str:
    function = as_dict(call.get("function"))
    return f"[I called {as_text(function.get('name'))} with {as_text(function.get('arguments'))}]"


def _as_one(row: list[bytes]) -> list[bytes]:
    return list(row) if len(row) < 2 else [_joined(row)]


def _joined(lines: Sequence[bytes]) -> bytes:
    said = [as_text(from_json(line)["content"]) for line in lines]
    return to_json({"role": "user", "content": "\n\n".join(said)})
