"""The questions of tool calls that ask a person for more than yes or no, with the command that answers each."""

import json
from typing import Any

from pentad.cli.render import harmless
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import ApprovalRequest

_MAX_CHOICES = 10
"""Choices of a value that are shown."""


def asked_lines(waiting: PendingApproval | ApprovalRequest) -> list[str]:
    """Return the question of a call that asks a person for more than yes or no, and the command that answers it."""
    form = waiting.form or {}
    values = {name: _kind(schema) for name, schema in form.get("properties", {}).items()}
    edit = f" --edit '{harmless(json.dumps(values, ensure_ascii=False))}'" if values else ""
    call = waiting.tool_call_id
    return [f"{call} asks: {harmless(waiting.reason or '')}", f"  pentad approve {call}{edit}"]


def _kind(schema: Any) -> str:
    """Return in a word what a value of a form is to be."""
    if not isinstance(schema, dict):
        return "..."
    if isinstance(choices := schema.get("enum"), list):
        return " | ".join(map(str, choices[:_MAX_CHOICES]))
    return str(schema.get("type", "..."))
