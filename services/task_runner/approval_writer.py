"""Tool calls that a person must allow: how they are asked about, then made or answered by what was decided."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalDecision, digest_of_args
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import EXPIRED, ApprovalEvent, ApprovalRequest, args_ref
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.task_runner.domain.plan import Decide
from pentad.services.task_runner.domain.targets import awaits_decision
from pentad.services.task_runner.step_writer import EDITED, StepWriter
from pentad.shared.actors.approvals import KeptRequest, kept_decision, kept_request, waits_in_index
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ApprovalMail, ResultMail
from pentad.shared.clipping import clip
from pentad.shared.keys import approvals
from pentad.shared.kinds import RESULT

ARGS_LIMIT = 16 * 1024
"""Bytes of a call's arguments that an event carries; the rest is kept by reference."""
_EDITED_LIMIT = 4 * 1024
"""Bytes of changed arguments that the model is told, and that the result's metadata has."""


def queue_call(writer: StepWriter, command: ToolCallCommand, queue: str) -> None:
    """Put a call into its queue: a tool-worker makes it."""
    writer.commit.set(writer.keys.calls, **{command.tool_call_id: "open 0"})
    writer.commit.queue(TOOL_CALLS, TOOL_CALLS.key(writer.keys.shard, queue=queue), command)


def request_approval(writer: StepWriter, command: ToolCallCommand, spec: ToolSpec, reason: str) -> int:
    """Keep a call until a person has decided about it, and tell clients. Return until when that is possible, in ms."""
    now, keys, call = writer.clock(), writer.keys, command.tool_call_id
    until, digest = now + writer.limits.approval_ms, digest_of_args(command.args)
    request = KeptRequest(
        command=command,
        queue=spec.queue,
        parameters=spec.parameters,
        args_digest=digest,
        reason=reason,
        asked_at=now,
        expires_at=until,
    )
    writer.commit.set(keys.calls, **{call: f"asks {until} {digest}"})
    writer.commit.set(keys.big, **{kept_request(call): request.to_json()})
    writer.commit.enter(approvals(keys.shard, keys.tenant), until, waits_in_index(keys.task, call))
    writer.commit.due(keys, "expiry", until)
    raw = to_json(command.args).decode()
    shown = clip(raw, ARGS_LIMIT)
    told: dict[str, Any] = {"args": command.args} if shown is raw else {"args": shown, "ref": args_ref(call)}
    told |= {"args_digest": digest, "reason": reason, "expires_at": rfc3339(until)}
    writer.emit(ApprovalRequest, tool_call_id=call, tool=command.tool, effect=command.effect, **told)
    return until


def write_decisions(writer: StepWriter, plan: Decide, requests: Mapping[str, KeptRequest]) -> None:
    """Make the calls that persons have allowed, and give the others their results in words."""
    if plan.expired:
        writer.commit.expect_no_new_result()
    ended: dict[str, OpenCall] = {}
    for call, decision in plan.decisions:
        decided = {"approval": "approved" if decision.approved else "refused", "approved_by": decision.by}
        if decision.approved:
            ended[call.id] = _make(writer, call, decision, requests[call.id], decided)
        else:
            why = f"the person has refused this call: {decision.reason or 'no reason was given'}"
            ended[call.id] = _answer(writer, call, ToolOutcome("cancelled", why), decided)
    for call in plan.expired:
        ended[call.id] = _expire(writer, call)
    calls = [ended.get(call.id, call) for call in writer.task.open]
    writer.commit.unmail(writer.arrived.decision_numbers)
    writer.commit.set(writer.keys.header, open=to_json([call.kept for call in calls]))
    writer.commit.stamp(writer.keys.header, "updated")
    if not any(awaits_decision(call) for call in calls):
        writer.commit.untimer(writer.keys, "expiry")
    _go_on(writer, makes_calls=bool(requests))


def _make(
    writer: StepWriter, call: OpenCall, decision: ApprovalMail, request: KeptRequest, decided: dict[str, str]
) -> OpenCall:
    """Put the call into its queue, with the arguments that were allowed, as it would have been without the question."""
    stamp = writer.envelope()
    changes: dict[str, Any] = {name: stamp[name] for name in ("event_id", "at", "causation_id")}
    if decision.args is not None:
        changes["args"] = decision.args
        decided[EDITED] = clip(to_json(decision.args).decode(), _EDITED_LIMIT)
    writer.forget_request(call.id)
    queue_call(writer, request.command.model_copy(update=changes), request.queue)
    return OpenCall(call.id, call.tool, request.queue, decision=decided)


def _go_on(writer: StepWriter, *, makes_calls: bool) -> None:
    """The task waits no more, until it finds that others of its calls still do. The time limit of the step counts from
    the calls that are made now."""
    if writer.task.waits:
        writer.set_active("decided")
    if makes_calls:
        writer.commit.stamp(writer.keys.header, "asked_at")
        writer.commit.timer(writer.keys, "timeout", writer.limits.step_timeout_ms)


def _answer(writer: StepWriter, call: OpenCall, outcome: ToolOutcome, decided: dict[str, str]) -> OpenCall:
    """Give the call its result as a tool-worker would, so that it comes with those of the other calls."""
    writer.forget_request(call.id)
    writer.commit.unset(writer.keys.calls, call.id)
    writer.emit_result(call.id, call.tool, outcome)
    writer.commit.post(writer.keys, RESULT, ResultMail.of(call.id, outcome).to_json())
    return replace(call, target="worker", until=0, decision=decided)


def _expire(writer: StepWriter, call: OpenCall) -> OpenCall:
    """Say that nobody has decided in time, which is a decision too: a later one is refused."""
    decision = ApprovalDecision(
        task_id=writer.keys.task, tool_call_id=call.id, approved=False, at=writer.at, reason=EXPIRED
    )
    writer.commit.set_once(writer.keys.big, kept_decision(call.id), b"%b %b" % (EXPIRED.encode(), decision.to_json()))
    writer.emit(ApprovalEvent, tool_call_id=call.id, approved=False, reason=EXPIRED)
    within = f"{writer.limits.approval_ms / 1000:g} s"
    why = f"nobody has decided within {within} whether this call may be made: it was neither allowed nor refused"
    return _answer(writer, call, ToolOutcome("timeout", why), {"approval": EXPIRED})
