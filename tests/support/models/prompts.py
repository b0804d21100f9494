"""Whether a prompt is one that every model server accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def ill_formed(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with a conversation in OpenAI chat form; empty when nothing is.

    Each tool call is answered exactly once, directly after the message that asks, in order; no result without a
    call; call ids unique; arguments valid JSON objects; the first message is the system's or the user's.
    """
    faults = (
        [] if messages and messages[0].get("role") in ("system", "user") else ["does not begin with system or user"]
    )
    seen: set[str] = set()
    due: list[str] = []
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            faults += _result_faults(number, message.get("tool_call_id"), due)
            continue
        faults += [f"{number}: {call_id} has no result before the next message" for call_id in due]
        calls = message.get("tool_calls") or []
        due = [str(call.get("id")) for call in calls]
        faults += _message_faults(number, message)
        faults += [f"{number}: call id {call_id} is used again" for call_id in _again(due, seen)]
        faults += [f"{number}: {fault}" for call in calls if (fault := _call_fault(call))]
    return faults + [f"end: {call_id} has no result" for call_id in due]


def _result_faults(number: int, call_id: Any, due: list[str]) -> list[str]:
    if call_id not in due:
        return [f"{number}: result for {call_id}, which is not open"]
    out_of_order = due[0] != call_id
    due.remove(call_id)
    return [f"{number}: result for {call_id} comes out of order"] if out_of_order else []


def _message_faults(number: int, message: Mapping[str, Any]) -> list[str]:
    role = message.get("role")
    if role not in ("system", "user", "assistant"):
        return [f"{number}: unknown role {role}"]
    if message.get("tool_calls") and role != "assistant":
        return [f"{number}: {role} asks for tools"]
    if role != "assistant" and not isinstance(message.get("content"), str | list):
        return [f"{number}: {role} without content"]
    if role == "assistant" and not message.get("content") and not message.get("tool_calls"):
        return [f"{number}: assistant says nothing"]
    return []


def _again(ids: Sequence[str], seen: set[str]) -> list[str]:
    repeated = []
    for call_id in ids:
        if call_id in seen:
            repeated.append(call_id)
        seen.add(call_id)
    return repeated


def _call_fault(call: Mapping[str, Any]) -> str | None:
    function = call.get("function") or {}
    if not call.get("id") or not function.get("name"):
        return f"call without id or name: {call}"
    try:
        arguments = json.loads(function["arguments"])
    except (KeyError, TypeError, ValueError):
        return f"arguments of {call['id']} are not JSON: {function.get('arguments')!r}"
    return None if isinstance(arguments, dict) else f"arguments of {call['id']} are not an object"
