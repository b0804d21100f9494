"""Approvals: tool calls that wait until a person allows or refuses them, and what was decided."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pentad.contracts.envelope import Contract
from pentad.contracts.suspensions import Needs
from pentad.contracts.tools import Effect

MAX_REASON = 2_000
"""Characters of the reason that a person gives for a decision."""
MAX_EDITED = 64 * 1024
"""Bytes, as JSON, of arguments that a person has changed."""


def digest_of_args(args: Mapping[str, Any]) -> str:
    """Return the digest of a call's arguments, whatever the order of their names."""
    text = json.dumps(args, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class PendingApproval(Contract):
    """A tool call that waits for a person's approval."""

    task_id: str
    session_id: str
    user_id: str | None = None
    """User whose message has led to the call."""
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    args_digest: str
    effect: Effect
    reason: str
    """Reason why a person is asked."""
    asked_at: str
    expires_at: str
    """Time after which nobody can decide any more, and the call is not made."""
    needs: Needs = "approval"
    """Kind of the question to the person."""
    form: dict[str, Any] | None = None
    """JSON schema of the values that are asked for: they are the ``args`` of the decision."""
    approvers: list[str] | None = None
    """Users who may decide; absent: everyone who may decide in this session."""


class ApprovalDecision(Contract):
    """The one decision about a tool call that waited for a person's approval."""

    task_id: str
    tool_call_id: str
    approved: bool
    by: str | None = None
    """Who decided; None: nobody did in time."""
    at: str
    args: dict[str, Any] | None = None
    """Arguments with which the call is made instead, if the person has changed them."""
    reason: str = ""
