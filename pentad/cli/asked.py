"""The questions of tool calls that ask a person for more than yes or no, with the command that answers each."""

import json
from typing import Any

from pentad.cli.render import call_line, harmless
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import ApprovalRequest

_MAX_CHOICES = 10
"""Choices of a value that are shown."""


def asked_lines(waiting: PendingApproval | ApprovalRequest) -> list[str]:
    """Return the question of a call that asks a person for more than yes or no, and the command that answers it."""
    values = values_asked(waiting)
    edit = f" --edit '{harmless(json.dumps(values, ensure_ascii=False))}'" if values else ""
    call = waiting.tool_call_id
    return [f"{call} asks: {harmless(waiting.reason or '')}", f"  pentad approve {call}{edit}"]


def values_asked(waiting: PendingApproval | ApprovalRequest) -> dict[str, str]:
    """Return the values that a question asks for, each with a word that says what it is to be."""
    form = waiting.form or {}
    return {name: _kind(schema) for name, schema in form.get("properties", {}).items()}


def waiting_lines(waiting: PendingApproval, columns: int) -> list[str]:
    """Return what a call that waits for a person asks for, and the commands of a chat that decide about it."""
    if waiting.needs != "approval":
        return asked_lines(waiting)
    call = waiting.tool_call_id
    why = f" ({harmless(waiting.reason)})" if waiting.reason else ""
    asks = f"? {call_line(waiting.tool, waiting.args, columns)} waits for approval{why}"
    return [asks, f"  /approve {call}, or /refuse {call}; until {waiting.expires_at}"]


def _kind(schema: Any) -> str:
    """Return in a word what a value of a form is to be."""
    if not isinstance(schema, dict):
        return "..."
    if isinstance(choices := schema.get("enum"), list):
        return " | ".join(map(str, choices[:_MAX_CHOICES]))
    return str(schema.get("type", "..."))
