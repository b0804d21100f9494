"""Tool calls that are not made yet: kept beside the task until they have what they wait for, a person's decision or the
ends of other calls.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import digest_of_args
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import ApprovalRequest, args_ref
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors.approvals import KeptRequest, kept_request, waits_in_index
from pentad.shared.clipping import clip
from pentad.shared.keys import approvals

DENIED = "denied"
"""Outcome, in the metrics, of a call that a policy denies."""
ARGS_LIMIT = 16 * 1024
"""Bytes of a call's arguments that an event carries; the rest is kept by reference."""


def queue_call(writer: StepWriter, command: ToolCallCommand, queue: str) -> None:
    """Put a call into its queue: a tool-worker makes it."""
    writer.commit.set(writer.keys.calls, **{command.tool_call_id: "open 0"})
    writer.commit.queue(TOOL_CALLS, TOOL_CALLS.key(writer.keys.shard, queue=queue), command)


def hold_call(writer: StepWriter, request: KeptRequest) -> None:
    """Keep a call until other calls have ended."""
    _keep(writer, request)


def request_approval(writer: StepWriter, request: KeptRequest) -> int:
    """Keep a call until a person has decided about it, and tell clients. Return until when that is possible, in ms."""
    now, keys, command = writer.clock(), writer.keys, request.command
    call = command.tool_call_id
    length = writer.limits.approval_ms if request.expires_s is None else round(request.expires_s * 1000)
    request = request.model_copy(update={"asked_at": now, "expires_at": now + length})
    until = request.expires_at
    _keep(writer, request)
    writer.commit.set(keys.calls, **{call: f"asks {until} {request.args_digest}"})
    writer.commit.enter(approvals(keys.shard, keys.tenant), until, waits_in_index(keys.task, call))
    writer.commit.due(keys, "expiry", until)
    writer.commit.tallies.count(metrics.approvals.labels("asked"))
    raw = to_json(command.args).decode()
    shown = clip(raw, ARGS_LIMIT)
    told: dict[str, Any] = {"args": command.args} if shown is raw else {"args": shown, "ref": args_ref(call)}
    told |= {"args_digest": request.args_digest, "reason": request.reason, "expires_at": rfc3339(until)}
    if request.is_form:
        told |= {"needs": request.needs, "form": request.parameters}
    told |= {"approvers": request.approvers}
    writer.emit(ApprovalRequest, tool_call_id=call, tool=command.tool, effect=command.effect, **told)
    return until


def kept(command: ToolCallCommand, queue: str, parameters: Mapping[str, Any], reason: str, **more: Any) -> KeptRequest:
    """Return a call as it is kept. ``more``: other fields of `KeptRequest`."""
    return KeptRequest(
        command=command,
        queue=queue,
        parameters=dict(parameters),
        args_digest=digest_of_args(command.args),
        reason=reason,
        asked_at=0,
        expires_at=0,
        **more,
    )


def _keep(writer: StepWriter, request: KeptRequest) -> None:
    writer.commit.set(writer.keys.big, **{kept_request(request.command.tool_call_id): request.to_json()})
