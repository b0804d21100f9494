"""Writes what mail has brought into a commit: results of calls, messages of users, and the calls that are given up.

It decides nothing.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pentad.contracts.ids import child_task_id
from pentad.contracts.tools import RECALLING_TOOLS, OutcomeKind, ToolOutcome
from pentad.services.task_runner.domain.arrived import stays_open
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED, GOES_ON
from pentad.services.task_runner.domain.plan import Closed
from pentad.services.task_runner.domain.result_in_prompt import KeptResult, KeptResults
from pentad.services.task_runner.domain.strategy import EndedCall
from pentad.services.task_runner.prompt import tool_result, user
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared.actors.approvals import kept_request, waits_in_index
from pentad.shared.actors.client_tools import CLIENT_CALL
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ResultMail, UserMail
from pentad.shared.actors.targets import asks_person, awaits_client, is_branch, is_kept, starts_task
from pentad.shared.keys import TaskKeys, approvals
from pentad.shared.kinds import ControlKind
from pentad.shared.workspace.media_types import IMAGES

log = logging.getLogger(__name__)

EDITED = "approved_args"
"""Name in a result's metadata of the arguments with which a person has let the call be made."""


def append_mail(writer: StepWriter, closed: Sequence[Closed], results: KeptResults, *, shared: bool = False) -> None:
    """Append results in the order of their calls, then the users' messages word for word.

    ``closed``: open calls that are given up; ``results``: those that have come; ``shared``: what
    is said here without a user is remembered for the whole tenant.
    """
    given_up = _close_calls(writer, closed)
    for call in writer.task.open:
        result = writer.arrived.results.get(call.id)
        if result is not None:
            _end_with_result(writer, call, result, results[call.id])
        elif call.id not in given_up and stays_open(call, writer.arrived):
            writer.still_open.append(call)
        else:
            outcome = given_up.get(call.id) or _result_made_here(writer, call)
            if call.inner_of:
                continue
            writer.ended.append(EndedCall(call.id, outcome.ok, outcome.for_model))
            if not is_branch(call):
                _append_result(writer, call, outcome.for_model, ok=outcome.ok, duration_ms=outcome.duration_ms)
    _append_messages(writer, writer.arrived.ended, writer.arrived.ended_number, shared=shared)
    _append_messages(writer, writer.arrived.users, writer.arrived.user_number, shared=shared)
    arrived = writer.arrived
    writer.commit.unmail(arrived.result_numbers + arrived.decision_numbers + arrived.suspended_numbers)


def _end_with_result(writer: StepWriter, call: OpenCall, result: ResultMail, kept: KeptResult) -> None:
    """Write the result of a call that has come. That of a task's branch is no message: the run of the graph has it."""
    if result.child is not None:
        writer.count_child(result.child.usage)
    if is_kept(call):  # a failover has taken back the decision, and its call was made already
        _forget_kept(writer, call)
    if call.inner_of:  # the call that has made it ends too, without it
        forget_result(writer, result)
        return
    writer.ended.append(EndedCall(call.id, result.ok, kept.whole, result.child))
    if call.target == "task":
        kind: OutcomeKind = "ok" if result.ok else "error"
        told = kept.whole if result.ok else kept.whole.removeprefix("error: ")
        writer.emit_result(call.id, call.tool, ToolOutcome(kind, told, result.duration_ms), counted_for="agent")
    if not is_branch(call):
        text = _text_of(writer, call.id, result, kept)
        images = [file.path for file in result.artifacts or () if file.media_type in IMAGES]
        _append_result(writer, call, text, ok=result.ok, duration_ms=result.duration_ms, images=images)


def forget_result(writer: StepWriter, result: ResultMail) -> None:
    """A result that was kept beside the task is needed no more."""
    if result.ref is not None:
        writer.commit.unset(writer.keys.big, result.ref)


def _append_result(
    writer: StepWriter, call: OpenCall, text: str, *, ok: bool, duration_ms: int | None, images: Sequence[str] = ()
) -> None:
    quotes_memory = call.tool in RECALLING_TOOLS and not awaits_client(call)
    origin = "recalled" if quotes_memory else None
    meta: dict[str, Any] = {"origin": origin, "failed": None if ok else True, "duration_ms": duration_ms}
    if call.decision:
        meta["metadata"] = dict(call.decision)
        if (edited := call.decision.get(EDITED)) is not None:
            text = f"(A person has changed the arguments of this call to {edited})\n{text}"
    writer.append(tool_result(call.id, text, images), **meta)


def _text_of(writer: StepWriter, call: str, result: ResultMail, kept: KeptResult) -> str:
    """The text of a result for prompts. A result that prompts hold in part stays beside the task, whole."""
    whole, text = kept.whole, kept.shown
    if kept.changed or text is whole:  # what the tool returned is not kept
        forget_result(writer, result)
    if text is whole:
        return text
    if kept.changed or result.ref is None:
        keep_result(writer, call, whole)
    else:
        _note_kept_results(writer)
    return text


def keep_result(writer: StepWriter, call: str, whole: str) -> None:
    """Keep a result whole beside the task of which prompts have only a part."""
    writer.commit.set_once(writer.keys.big, call, whole)
    _note_kept_results(writer)


def _note_kept_results(writer: StepWriter) -> None:
    if not writer.reads_results:
        writer.reads_results = True
        writer.commit.set(writer.keys.header, reads_results=1)


def _append_messages(writer: StepWriter, messages: Sequence[UserMail], number: int, *, shared: bool = False) -> None:
    """Append users' messages; they wait no more. ``number``: of the last of them."""
    shares = shared or writer.limits.shares_memory
    for mail in messages:
        for turn in mail.context:
            said = user(turn.content, turn.files or ()) | {"role": turn.role}
            writer.append(said, at=turn.at, message_id=turn.message_id, origin="context", task_id=turn.task_id)
        message = mail.message
        writer.append(
            user(message.content, message.files or ()),
            at=mail.at,
            message_id=message.message_id,
            user_id=message.user_id,
            memory_session=None if message.user_id or shares else writer.task.session or None,
            deadline=message.deadline,
            budget=message.budget,
            metadata=message.metadata or None,
            traceparent=message.traceparent,
        )
    if number:
        writer.commit.consume(number)


def keep_mail(writer: StepWriter) -> None:
    """Leave mail that asks for something in the mailbox, and append messages that an end has covered."""
    _append_messages(writer, writer.arrived.ended, writer.arrived.ended_number)
    writer.commit.leaves_messages = bool(writer.arrived.users) or writer.arrived.left
    if writer.added:
        writer.commit.set(writer.keys.header, log_length=writer.task.log_length + len(writer.added))


def postpone(writer: StepWriter, spent: Iterable[int] = ()) -> None:
    """Leave the mail, and do not count the attempt. ``spent``: numbers of signals that are not needed any more."""
    writer.commit.unmail([number for number in spent if number not in writer.arrived.control_numbers])
    keep_mail(writer)
    writer.commit.set(writer.keys.header, attempt=writer.attempt - 1)


def use_redrives(writer: StepWriter) -> None:
    """Use up redrives. A redrive that is left asks the task to go on after its end."""
    writer.commit.unmail(writer.arrived.redrive_numbers)
    writer.redrives_left = False


def _close_calls(writer: StepWriter, closed: Sequence[Closed]) -> Mapping[str, ToolOutcome]:
    """Give up open calls, unless a result has just come: whoever runs them finds them closed. Return their
    outcomes."""
    if closed:
        writer.commit.expect_no_new_result()
    outcomes: dict[str, ToolOutcome] = {}
    for each in closed:
        writer.commit.unset(writer.keys.calls, each.call.id)
        outcome = outcomes[each.call.id] = replace(each.outcome, duration_ms=_since_asked(writer, each.call))
        if starts_task(each.call):
            _tell_child(writer, each.call, "cancel")
        if is_kept(each.call):
            _forget_kept(writer, each.call)
        if not is_branch(each.call):
            writer.emit_result(each.call.id, each.call.tool, outcome, _counted_for(each.call))
    return outcomes


def _forget_kept(writer: StepWriter, call: OpenCall) -> None:
    """A call that is not made, as far as the task knows, has ended."""
    forget_request(writer, call.id)
    writer.commit.untimer(writer.keys, "expiry")


def forget_request(writer: StepWriter, call: str) -> None:
    """A call waits no more for a decision or for other calls."""
    index = approvals(writer.keys.shard, writer.keys.tenant)
    writer.commit.leave(index, waits_in_index(writer.keys.task, call))
    writer.commit.unset(writer.keys.big, kept_request(call))


def _since_asked(writer: StepWriter, call: OpenCall) -> int:
    """How long a call was open that is given up, in ms: nobody else knows how long it ran."""
    return max(0, writer.clock() - writer.task.asked_at) if writer.task.asked_at and call.queue else 0


def _result_made_here(writer: StepWriter, call: OpenCall) -> ToolOutcome:
    """Return the outcome of an `ask_user` or `complete_task` call, which the task-runner answers itself."""
    if awaits_client(call):
        return _left_by_client(writer, call)
    done = GOES_ON if writer.arrived.asks else COMPLETED
    outcome = ToolOutcome("ok", ANSWERED if asks_person(call) else done)
    writer.emit_result(call.id, call.tool, outcome)
    return outcome


def _left_by_client(writer: StepWriter, call: OpenCall) -> ToolOutcome:
    """A message has come instead of the result that a client was to send: that is not taken any more."""
    writer.commit.expect_no_new_result()
    writer.commit.unset(writer.keys.calls, call.id)
    outcome = ToolOutcome("cancelled", "the client has sent a message instead of a result")
    writer.emit_result(call.id, call.tool, outcome, _counted_for(call))
    return outcome


def close_children(writer: StepWriter, reason: str) -> None:
    """Give up the tasks of a node that the run leaves: they are cancelled."""
    for call in writer.still_open:
        writer.commit.unset(writer.keys.calls, call.id)
        _tell_child(writer, call, "cancel")
    if writer.still_open:
        log.debug("%s: %d tasks of a node are cancelled: %s", writer.keys.actor, len(writer.still_open), reason)
    writer.still_open = []


def tell_children(writer: StepWriter, control: ControlKind) -> None:
    """Ask all tasks that this one has started to pause, to go on or to end."""
    for call in writer.task.open:
        if starts_task(call) and call.id not in writer.arrived.results:
            _tell_child(writer, call, control)


def _tell_child(writer: StepWriter, call: OpenCall, control: ControlKind) -> None:
    child = TaskKeys(writer.keys.shard, writer.keys.tenant, child_task_id(call.id))
    writer.commit.report(child, control, b"{}", control)


def _counted_for(call: OpenCall) -> str:
    """Return the name under which metrics count a call whose tool a client has named; '' for the tool's own."""
    return CLIENT_CALL if awaits_client(call) else ""
