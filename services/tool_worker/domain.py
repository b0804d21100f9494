"""Decides what a tool call's outcome means to the model and to clients. Pure."""

import re
from dataclasses import replace
from typing import Literal

from pydantic_core import from_json

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.ids import DEFAULT_TENANT, is_identifier
from pentad.contracts.plain_json import collector_waits
from pentad.contracts.suspensions import MAX_MESSAGE, Suspension
from pentad.contracts.tools import Effect, OutcomeKind, ToolOutcome
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable

RESULT_LIMIT = 1024 * 1024
"""Bytes of a result that are kept at all."""
UNKNOWN = "outcome unknown: the tool had started when its worker died, and it must not run twice"


def bounded(outcome: ToolOutcome) -> ToolOutcome:
    """A result that can be kept: what is over the limit is cut and says so."""
    kept = clip(outcome.text, RESULT_LIMIT)
    if kept is outcome.text:
        return outcome
    return replace(outcome, text=f"{kept}\n[cut: longer than {RESULT_LIMIT} bytes]")


def told_outcome(outcome: ToolOutcome) -> ToolOutcome:
    """Return the outcome as it is told to others: a refused attempt is an error of its call."""
    return replace(outcome, kind="error") if outcome.kind == "refused" else outcome


def unknown(starts: int, why: str | None = None) -> ToolOutcome:
    """Return the outcome of a call whose effect is unknown. ``why``: the cause, when it is not the worker's death."""
    text = UNKNOWN if why is None else f"outcome unknown: {why}; it must not run twice"
    return ToolOutcome("unknown", text, starts=starts)


def suspension_of(outcome: ToolOutcome, command: ToolCallCommand) -> Suspension | None:
    """Return what a call needs to go on; None for one that has ended. A person may know an outcome that nobody else
    does."""
    if outcome.kind == "unknown" and command.on_unknown == "ask":
        return Suspension(needs="outcome", message=outcome.text[:MAX_MESSAGE])
    return outcome.suspension


def after_outcome(kind: OutcomeKind, effect: Effect) -> Literal["close", "again", "unknown"]:
    """Decide what follows a finished attempt (law 10): its process may have been lost through no fault of its own."""
    if kind != "interrupted":
        return "close"
    return "unknown" if effect is Effect.UNSAFE else "again"


@immutable
class CallName:
    """Which call of which task."""

    tenant: str
    task: str
    call: str


def named_call(data: bytes) -> CallName | None:
    """Return the tenant, task and call that an entry names, even when its other fields cannot be read; None when these
    cannot.
    """
    try:
        with collector_waits(data):
            body = from_json(data)
    except ValueError:
        body = {name: _first(name, data) for name in ("tenant_id", "task_id", "tool_call_id")}
    if not isinstance(body, dict):
        return None
    tenant, task, call = body.get("tenant_id") or DEFAULT_TENANT, body.get("task_id"), body.get("tool_call_id")
    for name in (tenant, task, call):
        if not isinstance(name, str) or not is_identifier(name):
            return None
    return CallName(str(tenant), str(task), str(call))


def _first(name: str, data: bytes) -> str | None:
    """The first text under this name in what is not JSON as a whole; the envelope comes before the tool's arguments."""
    found = re.search(rb'"%s"\s*:\s*"([^"\\]*)"' % name.encode(), data)
    return found[1].decode(errors="replace") if found else None


def when_set_aside(reason: str, started: bool) -> ToolOutcome:
    """The outcome of a call whose entry was set aside."""
    if started:
        return ToolOutcome("unknown", f"outcome unknown: the call had started and was set aside: {reason}")
    return ToolOutcome("error", f"set aside: {reason}")
