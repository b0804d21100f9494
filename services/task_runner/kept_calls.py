"""Tool calls that are not made yet, or that have stopped on their way: kept beside the task until they have what they
wait for, a person's decision or the ends of other calls. Then they are made, or answered in words.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalDecision, digest_of_args
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import EXPIRED, ApprovalEvent, ApprovalRequest, args_ref
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.suspensions import MAX_ROUNDS, OUTCOME_FORM, Resumption
from pentad.contracts.tools import OutcomeKind, ToolOutcome
from pentad.services.task_runner.domain.plan import Advance
from pentad.services.task_runner.domain.targets import awaits_decision
from pentad.services.task_runner.step_writer import EDITED, StepWriter
from pentad.shared import metrics
from pentad.shared.actors.approvals import KeptRequest, kept_decision, kept_request, waits_in_index
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ApprovalMail, ResultMail, SuspendedCall
from pentad.shared.clipping import clip
from pentad.shared.keys import approvals
from pentad.shared.kinds import RESULT

DENIED = "denied"
"""Outcome, in the metrics, of a call that a policy denies."""
ARGS_LIMIT = 16 * 1024
"""Bytes of a call's arguments that an event carries; the rest is kept by reference."""
_EDITED_LIMIT = 4 * 1024
"""Bytes of changed arguments that the model is told, and that the result's metadata has."""


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


def write_advance(
    writer: StepWriter, plan: Advance, requests: Mapping[str, KeptRequest], denied: Mapping[str, str]
) -> None:
    """Make calls that have what they waited for, ask persons about others, and give the rest their results in words.

    ``denied``: calls that a policy denies as they would be made now, each with why.
    """
    if plan.expired or any(decision.spoken for _, decision in plan.decisions):
        writer.commit.expect_no_new_result()
    changed: dict[str, OpenCall] = {}
    for call, decision in plan.decisions:
        changed[call.id] = _decide(writer, call, decision, requests[call.id], denied.get(call.id, ""))
    for call in plan.expired:
        changed[call.id] = _expire(writer, call, requests[call.id])
    for call, need in plan.suspended:
        changed[call.id] = _suspend(writer, call, need)
    for call in plan.released:
        why = denied.get(call.id)
        changed[call.id] = _deny(writer, call, why, None) if why else _release(writer, call, requests[call.id])
    for call, tool in plan.blocked:
        why = f"this call was not made: it comes after {tool}, which has failed"
        changed[call.id] = _answer(writer, call, ToolOutcome("error", why), call.decision)
    calls = [changed.get(call.id, call) for call in writer.task.open]
    writer.commit.unmail(writer.arrived.decision_numbers + writer.arrived.suspended_numbers)
    writer.commit.set(writer.keys.header, open=to_json([call.kept for call in calls]))
    writer.commit.stamp(writer.keys.header, "updated")
    if not any(awaits_decision(call) for call in calls):
        writer.commit.untimer(writer.keys, "expiry")
    if writer.task.waits:  # no more, until it finds that others of its calls still do
        writer.set_active("decided")
    if any(awaits_decision(call) for call in changed.values()):
        writer.commit.rewake()


def _decide(writer: StepWriter, call: OpenCall, decision: ApprovalMail, request: KeptRequest, denied: str) -> OpenCall:
    """Carry out what a person has decided about a call; ``denied``: why it is not made even so, or ''."""
    decided = {"approval": "approved" if decision.approved else "refused", "approved_by": decision.by}
    writer.commit.tallies.count(metrics.approvals.labels(decided["approval"]))
    if decision.spoken:
        _keep_spoken(writer, call, decision)
    if request.needs == "outcome":
        return _conclude(writer, call, decision, request, decided, denied)
    if request.needs == "approval" and not decision.approved:
        why = f"the person has refused this call: {decision.reason or 'no reason was given'}"
        return _answer(writer, call, ToolOutcome("cancelled", why), decided)
    if denied:
        return _deny(writer, call, denied, decided)
    if request.needs == "input":
        return _make(writer, call, request, decided, resumed=_resumption(request, decision))
    changes: dict[str, Any] = {}
    if decision.args is not None:
        changes["args"] = decision.args
        decided[EDITED] = clip(to_json(decision.args).decode(), _EDITED_LIMIT)
    return _make(writer, call, request, decided, asks_if=None, **changes)


def _resumption(request: KeptRequest, decision: ApprovalMail) -> Resumption:
    """Return the answer with which a suspended call goes on."""
    content = decision.args or {} if decision.approved else None
    again = request.command.round + 1
    return Resumption(round=again, needs="input", accepted=decision.approved, content=content, state=request.state)


def _conclude(
    writer: StepWriter,
    call: OpenCall,
    decision: ApprovalMail,
    request: KeptRequest,
    decided: dict[str, str],
    denied: str,
) -> OpenCall:
    """A person knows what has become of a call whose outcome was unknown."""
    said = (decision.args or {}) if decision.approved else {"outcome": "not done"}
    decided["outcome"] = str(said.get("outcome"))
    if decided["outcome"] == "try again" and denied:
        return _deny(writer, call, denied, decided)
    if decided["outcome"] == "try again":
        again = Resumption(round=request.command.round + 1, needs="outcome")
        return _make(writer, call, request, decided, resumed=again)
    if decided["outcome"] == "done":
        told = str(said.get("result") or "a person has seen that the call was made; its result is not known")
        return _answer(writer, call, ToolOutcome("ok", told), decided)
    why = f"a person has seen that this call was not made{f': {decision.reason}' if decision.reason else ''}"
    return _answer(writer, call, ToolOutcome("error", why), decided)


def _suspend(writer: StepWriter, call: OpenCall, need: SuspendedCall) -> OpenCall:
    """Ask a person for what a call needs that has begun, unless it has asked too often."""
    command, suspension = need.command, need.suspension
    if command.round >= MAX_ROUNDS:
        why = f"this call has asked {MAX_ROUNDS} times for something, and asks again: it is given up"
        return _answer(writer, call, ToolOutcome("error", why), call.decision)
    form = OUTCOME_FORM if suspension.needs == "outcome" else suspension.form or {"type": "object"}
    more: dict[str, Any] = {"needs": suspension.needs, "state": suspension.state}
    request = kept(command, call.queue, form, suspension.message or _ASKED_FOR[suspension.needs], **more)
    return OpenCall(call.id, call.tool, call.queue, "approval", request_approval(writer, request), call.decision)


_ASKED_FOR = {
    "approval": "the tool asks for an approval of this call",
    "input": "the tool needs something to go on",
    "outcome": "nobody knows whether this call was made: say what has become of it",
}
"""Questions to a person where the tool has none of its own."""


def _release(writer: StepWriter, call: OpenCall, request: KeptRequest) -> OpenCall:
    """The calls that this one has waited for have ended: make it, or ask a person first."""
    if request.reason:
        until = request_approval(writer, request)
        return OpenCall(call.id, call.tool, request.queue, "approval", until)
    return _make(writer, call, request, None)


def _make(
    writer: StepWriter, call: OpenCall, request: KeptRequest, decided: dict[str, str] | None, **changes: Any
) -> OpenCall:
    """Put the call into its queue, as it would have been if it had not waited. The time limit of the step counts from
    now."""
    stamp = writer.envelope()
    changes |= {name: stamp[name] for name in ("event_id", "at", "causation_id")}
    writer.forget_request(call.id)
    queue_call(writer, request.command.model_copy(update=changes), request.queue)
    writer.commit.stamp(writer.keys.header, "asked_at")
    writer.commit.timer(writer.keys, "timeout", writer.limits.step_timeout_ms)
    return OpenCall(call.id, call.tool, request.queue, decision=decided)


def _answer(writer: StepWriter, call: OpenCall, outcome: ToolOutcome, decided: Mapping[str, str] | None) -> OpenCall:
    """Give the call its result as a tool-worker would, so that it comes with those of the other calls."""
    writer.forget_request(call.id)
    writer.commit.unset(writer.keys.calls, call.id)
    writer.emit_result(call.id, call.tool, outcome)
    writer.commit.post(writer.keys, RESULT, ResultMail.of(call.id, outcome).to_json())
    return replace(call, target="worker", until=0, decision=decided, after=())


def _deny(writer: StepWriter, call: OpenCall, why: str, decided: Mapping[str, str] | None) -> OpenCall:
    """Answer a call that a policy denies, whatever a person has decided about it."""
    writer.commit.tallies.count(metrics.approvals.labels(DENIED))
    return _answer(writer, call, ToolOutcome("error", why), decided)


def _expire(writer: StepWriter, call: OpenCall, request: KeptRequest) -> OpenCall:
    """Say that nobody has decided in time, which is a decision too: a later one is refused."""
    decision = ApprovalDecision(
        task_id=writer.keys.task, tool_call_id=call.id, approved=False, at=writer.at, reason=EXPIRED
    )
    writer.commit.set_once(writer.keys.big, kept_decision(call.id), b"%b %b" % (EXPIRED.encode(), decision.to_json()))
    writer.emit(ApprovalEvent, tool_call_id=call.id, approved=False, reason=EXPIRED)
    writer.commit.tallies.count(metrics.approvals.labels(EXPIRED))
    within = f"within {(request.expires_at - request.asked_at) / 1000:g} s"
    outcome = {
        "approval": f"nobody has decided {within} whether this call may be made: it was neither allowed nor refused",
        "input": f"nobody has given {within} what this call needs to go on: {request.reason}",
        "outcome": f"outcome unknown: {request.reason}; nobody has said {within} what has become of the call",
    }[request.needs]
    kind: OutcomeKind = "unknown" if request.needs == "outcome" else "timeout"
    return _answer(writer, call, ToolOutcome(kind, outcome), {"approval": EXPIRED})


def _keep_spoken(writer: StepWriter, call: OpenCall, decision: ApprovalMail) -> None:
    """Keep and tell a decision that a person has made by a message: it is the only one, like any other."""
    made = ApprovalDecision(
        task_id=writer.keys.task,
        tool_call_id=call.id,
        approved=decision.approved,
        by=decision.by,
        at=writer.at,
        args=decision.args,
        reason=decision.reason,
    )
    same = "approved:spoken" if decision.approved else "refused"
    writer.commit.set_once(writer.keys.big, kept_decision(call.id), b"%b %b" % (same.encode(), made.to_json()))
    told = {"approved": decision.approved, "by": decision.by, "reason": decision.reason, "args": decision.args}
    writer.emit(ApprovalEvent, tool_call_id=call.id, **told)
