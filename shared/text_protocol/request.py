"""Writes a conversation and its tools in the text protocol. Pure: the same request for the same transcript."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.text_protocol.answer import ACTION, FINAL, INPUT, LABELS, OBSERVATION, THOUGHT

_HOW = f"""

You work in steps. In each step write either

{THOUGHT}: what you think
{ACTION}: the name of one tool
{INPUT}: its arguments, as one JSON object

and end there: the result comes as {OBSERVATION}. Or, when you know enough,

{THOUGHT}: what you think
{FINAL}: the answer to the user, in the user's language

Write nothing else, and never write an {OBSERVATION} yourself."""
_NO_TOOLS = "\n\nThere are no tools: give the Final Answer."


def with_protocol(system: bytes, tools: bytes | None) -> bytes:
    """Return a system message, as JSON, that explains the protocol and the tools. ``tools``: in OpenAI's form."""
    message = from_json(system)
    described = "".join(_described(tool["function"]) for tool in from_json(tools)) if tools is not None else ""
    listed = f"\n\nYour tools:\n{described}" if described else _NO_TOOLS
    return to_json(message | {"content": f"{message['content']}{_HOW}{listed}"})


def _described(tool: dict[str, Any]) -> str:
    about = " ".join(str(tool.get("description") or "").split())
    return f"\n- {tool['name']}: {about}\n  {INPUT}: {to_json(tool.get('parameters') or {}).decode()}"


def as_text(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return messages in OpenAI chat form, as JSON, with calls and results written as text.

    Results that follow each other become one message.
    """
    return list(_written(messages))


def _written(messages: Sequence[bytes]) -> Iterator[bytes]:
    results: list[str] = []
    for line in messages:
        message = from_json(line)
        if message["role"] == "tool":
            results.append(f"{OBSERVATION}: {message.get('content') or ''}")
            continue
        if results:
            yield to_json({"role": "user", "content": "\n".join(results)})
            results = []
        if message["role"] == "assistant":
            yield to_json({"role": "assistant", "content": _answer(message)})
        else:
            yield line
    if results:
        yield to_json({"role": "user", "content": "\n".join(results)})


def _answer(message: dict[str, Any]) -> str:
    said = str(message.get("content") or "")
    calls = message.get("tool_calls") or ()
    if not calls:
        labelled = any(line.startswith(tuple(f"{label}:" for label in LABELS)) for line in said.splitlines())
        return said if labelled else f"{FINAL}: {said}"
    actions = "\n".join(
        f"{ACTION}: {call['function']['name']}\n{INPUT}: {call['function']['arguments']}" for call in calls
    )
    return f"{THOUGHT}: {said}\n{actions}" if said else actions
