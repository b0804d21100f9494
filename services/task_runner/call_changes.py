"""Open calls that change: made when they have what they waited for, asked about, or answered in words."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalDecision
from pentad.contracts.events import EXPIRED, ApprovalEvent
from pentad.contracts.suspensions import MAX_INNER_ROUNDS, MAX_ROUNDS, OUTCOME_FORM, InnerResult, Needs, Resumption
from pentad.contracts.tools import OutcomeKind, ToolOutcome
from pentad.services.task_runner.domain.plan import Advance
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.kept_calls import DENIED, hold_call, kept, queue_call, request_approval
from pentad.services.task_runner.mail_writer import EDITED, forget_request, forget_result
from pentad.services.task_runner.status_writer import set_active
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_calls import request_call
from pentad.shared import metrics
from pentad.shared.actors.approvals import KeptRequest, kept_decision
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ApprovalMail, ResultMail, SuspendedCall
from pentad.shared.actors.targets import awaits_decision
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.kinds import RESULT

_INNER_LIMIT = 64 * 1024
"""Bytes of one result that the call gets which has asked for it."""
_EDITED_LIMIT = 4 * 1024
"""Bytes of changed arguments that the model is told, and that the result's metadata has."""


@immutable
class AdvanceMaterials:
    """Data that changes of open calls are written from, beside the task's header and mail."""

    requests: Mapping[str, KeptRequest] = field(default_factory=dict)
    """Calls that are kept beside the task and change now."""
    inner: Mapping[str, Sequence[PlannedCall]] = field(default_factory=dict)
    """Calls that suspended calls ask for, as they were read and checked, by the outer call."""
    results: KeptResults = field(default_factory=dict)
    """Results that have come; read where a call goes on with those of its own calls."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Kept calls that a policy denies as they would be made now, each with why."""


def write_advance(writer: StepWriter, plan: Advance, materials: AdvanceMaterials) -> None:
    """Make calls that have what they waited for, ask persons about others, and give the rest their results in words."""
    requests, denied = materials.requests, materials.denied
    if plan.expired or any(decision.spoken for _, decision in plan.decisions):
        writer.commit.expect_no_new_result()
    changed: dict[str, OpenCall] = {}
    for call, decision in plan.decisions:
        changed[call.id] = _decide(writer, call, decision, requests[call.id], denied.get(call.id, ""))
    for call in plan.expired:
        changed[call.id] = _expire(writer, call, requests[call.id])
    added = list[OpenCall]()
    for call, need in plan.suspended:
        changed[call.id], inner = _suspend(writer, call, need, materials.inner.get(call.id, ()))
        added += inner
    used = set[str]()
    for call in plan.released:
        why = denied.get(call.id)
        released = requests[call.id]
        changed[call.id] = (
            _deny(writer, call, why, None) if why else _release(writer, call, released, materials.results)
        )
        used.update(each.id for each in writer.task.open if each.inner_of == call.id)
    for call, tool in plan.blocked:
        why = f"this call was not made: it comes after {tool}, which has failed"
        changed[call.id] = _answer(writer, call, ToolOutcome("error", why), call.decision)
    calls = [changed.get(call.id, call) for call in writer.task.open if call.id not in used] + added
    writer.commit.unmail(writer.arrived.decision_numbers + writer.arrived.suspended_numbers)
    writer.commit.unmail([writer.arrived.number_of_result[call] for call in used])
    writer.commit.set(writer.keys.header, open=to_json([call.kept for call in calls]))
    writer.commit.stamp(writer.keys.header, "updated")
    if not any(awaits_decision(call) for call in calls):
        writer.commit.untimer(writer.keys, "expiry")
    if writer.task.waits:  # no more, until it finds that others of its calls still do
        set_active(writer, "decided")
    if any(awaits_decision(call) for call in (*changed.values(), *added)):
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


def _suspend(
    writer: StepWriter, call: OpenCall, need: SuspendedCall, inner: Sequence[PlannedCall]
) -> tuple[OpenCall, Sequence[OpenCall]]:
    """Ask for the needs of a call that has begun, unless it has asked too often. Return it, and calls that it makes."""
    command, suspension = need.command, need.suspension
    most = MAX_INNER_ROUNDS if inner else MAX_ROUNDS
    if command.round >= most:
        why = f"this call has asked {most} times for something, and asks again: it is given up"
        return _answer(writer, call, ToolOutcome("error", why), call.decision), ()
    more: dict[str, Any] = {"needs": suspension.needs, "state": suspension.state}
    if suspension.needs == "calls":
        made = [request_call(writer, each, command.step, command.instruction, inner_of=call.id) for each in inner]
        hold_call(writer, kept(command, call.queue, {}, "", **more))
        return replace(call, target="calls", after=[each.id for each in made]), [each.opened for each in made]
    form = OUTCOME_FORM if suspension.needs == "outcome" else suspension.form or {"type": "object"}
    request = kept(command, call.queue, form, suspension.message or _ASKED_FOR[suspension.needs], **more)
    writer.commit.unset(writer.keys.big, kept_decision(call.id))  # of the question before: this one is another
    return replace(call, target="approval", until=request_approval(writer, request)), ()


_ASKED_FOR: Mapping[Needs, str] = {
    "approval": "the tool asks for an approval of this call",
    "input": "the tool needs something to go on",
    "outcome": "nobody knows whether this call was made: say what has become of it",
}
"""Questions to a person where the tool has none of its own."""


def _release(writer: StepWriter, call: OpenCall, request: KeptRequest, results: KeptResults) -> OpenCall:
    """The calls that this one has waited for have ended: make it or let it go on, or ask a person first."""
    if request.needs == "calls":
        outcomes = [_inner_result(writer, each, results) for each in call.after]
        again = request.command.round + 1
        resumed = Resumption(round=again, needs="calls", state=request.state, results=outcomes)
        return _make(writer, call, request, call.decision, resumed=resumed)
    if request.reason:
        return replace(call, target="approval", until=request_approval(writer, request), after=())
    return _make(writer, call, request, None)


def _inner_result(writer: StepWriter, call: str, results: KeptResults) -> InnerResult:
    """The result of a call for the call that has made it."""
    result, kept_result = writer.arrived.results[call], results[call]
    forget_result(writer, result)
    text = kept_result.whole if result.ok else kept_result.whole.removeprefix("error: ")
    shown = clip(text, _INNER_LIMIT)
    cut = "" if shown is text else f"\n[cut: longer than {_INNER_LIMIT} bytes]"
    return InnerResult(ok=result.ok, text=shown + cut)


def _make(
    writer: StepWriter, call: OpenCall, request: KeptRequest, decided: Mapping[str, str] | None, **changes: Any
) -> OpenCall:
    """Put the call into its queue, as it would have been if it had not waited. The time limit of the step counts from
    now."""
    stamp = writer.envelope()
    changes |= {name: stamp[name] for name in ("event_id", "at", "causation_id")}
    forget_request(writer, call.id)
    queue_call(writer, request.command.model_copy(update=changes), request.queue)
    writer.commit.stamp(writer.keys.header, "asked_at")
    writer.commit.timer(writer.keys, "timeout", writer.limits.step_timeout_ms)
    return replace(call, queue=request.queue, target="worker", until=0, decision=decided, after=())


def _answer(writer: StepWriter, call: OpenCall, outcome: ToolOutcome, decided: Mapping[str, str] | None) -> OpenCall:
    """Give the call its result as a tool-worker would, so that it comes with those of the other calls."""
    forget_request(writer, call.id)
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
    outcome: Mapping[Needs, str] = {
        "approval": f"nobody has decided {within} whether this call may be made: it was neither allowed nor refused",
        "input": f"nobody has given {within} what this call needs to go on: {request.reason}",
        "outcome": f"outcome unknown: {request.reason}; nobody has said {within} what has become of the call",
    }
    kind: OutcomeKind = "unknown" if request.needs == "outcome" else "timeout"
    return _answer(writer, call, ToolOutcome(kind, outcome[request.needs]), {"approval": EXPIRED})


def _keep_spoken(writer: StepWriter, call: OpenCall, decision: ApprovalMail) -> None:
    """Keep and tell a decision that a person has made by a message: it is the only one, like any other."""
    made = decision.to_decision(writer.keys.task, writer.at)
    same = "approved:spoken" if decision.approved else "refused"
    writer.commit.set_once(writer.keys.big, kept_decision(call.id), b"%b %b" % (same.encode(), made.to_json()))
    told = {"approved": decision.approved, "by": decision.by, "reason": decision.reason, "args": decision.args}
    writer.emit(ApprovalEvent, tool_call_id=call.id, **told)
