"""Writes each plan into its handling's commit: one function a plan, in one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from pentad.contracts.events import TaskStatusEvent
from pentad.contracts.ids import rfc3339
from pentad.contracts.records import StepRecord
from pentad.contracts.turns import NEEDS_APPROVAL, NEEDS_CLIENT
from pentad.services.task_runner.answer_writer import complete, tell
from pentad.services.task_runner.call_changes import AdvanceMaterials, write_advance
from pentad.services.task_runner.domain.own_tools import answer_of
from pentad.services.task_runner.domain.plan import (
    Advance,
    Answered,
    AwaitAnswers,
    End,
    Enqueue,
    Finish,
    GoesOn,
    Hold,
    Idle,
    Pause,
    Plan,
    Reopen,
    Resume,
    Stale,
    Start,
    StillPaused,
)
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.mail_writer import append_mail, keep_mail, postpone, tell_children, use_redrives
from pentad.services.task_runner.status_writer import end_task, restart_task, set_active, set_pending, wait_for_person
from pentad.services.task_runner.step_writer import Spent, StepWriter
from pentad.shared import metrics
from pentad.shared.immutable import immutable

PAUSED = "paused"
"""Reason for waiting of a task that a person has paused."""
_ACTIVE = "active"
_TO_GO_ON = {NEEDS_APPROVAL: "decide about its calls", NEEDS_CLIENT: "send the results of its calls, or a message"}
"""Ways to let a task go on, by what it waits for."""


@immutable
class Materials:
    """Data that a plan is written from, beside the task's header and mail."""

    transcript: Sequence[bytes] = ()
    """The committed messages, as the model is sent them."""
    results: KeptResults = field(default_factory=dict)
    """The results that have come, by their calls."""
    last_record: StepRecord | None = None
    """Record of the task's last step; read for `Finish` alone."""
    advance: AdvanceMaterials = AdvanceMaterials()
    """Data that changes of open calls are written from; read for `Advance` alone."""


def _idle(writer: StepWriter, plan: Idle, _: Materials) -> None:
    """Leave everything as it is, except mail that is not needed any more."""
    postpone(writer, plan.spent)


def _reopen(writer: StepWriter, plan: Reopen, _: Materials) -> None:
    """Begin again with messages that the end had left: their turn is the next handling's."""
    restart_task(writer)
    postpone(writer)
    writer.commit.set(writer.keys.header, status="active", reason="")
    writer.commit.stamp(writer.keys.header, "updated")
    if plan.deadline:
        writer.commit.set(writer.keys.header, deadline=plan.deadline)
        writer.commit.due(writer.keys, "deadline", plan.deadline)
    writer.commit.rewake()


def _finish(writer: StepWriter, plan: Finish, materials: Materials) -> None:
    """The task completes with its summary, unless a message has come since; its calls have their results."""
    append_mail(writer, plan.closed, materials.results)
    said_in = materials.last_record
    assert said_in is not None, "a task that finishes has made a step"
    answer = answer_of(materials.transcript, plan.call)
    writer.set_header(open="")
    by = {"model": said_in.manifest.model, "model_id": said_in.manifest.model_id}
    by |= {"finish_reason": said_in.finish_reason}
    tell(writer, said_in.step, said_in.attempt, answer, by)
    writer.commit.untimer(writer.keys, "timeout")
    writer.spent = Spent(finish_reason=said_in.finish_reason)
    complete(writer, answer, "answered", plan.mode)


def _pause(writer: StepWriter, plan: Pause, materials: Materials) -> None:
    """Write the results down; then wait for a person."""
    append_mail(writer, plan.closed, materials.results)
    use_redrives(writer)
    writer.set_header(status="waiting", reason=plan.reason, open="", fails=0)
    writer.commit.untimer(writer.keys, "timeout", "retry")
    wait_for_person(writer, plan.reason)


def _end(writer: StepWriter, plan: End, materials: Materials) -> None:
    """The task ends without an answer. Where it would go on with a message that comes in time, its calls are closed."""
    append_mail(writer, plan.closed, materials.results)
    if plan.status == "cancelled":
        use_redrives(writer)
    if plan.mode == "complete":
        writer.set_header(open="")
        writer.commit.finish()
    else:
        writer.set_header()
    end_task(writer, plan.status, plan.mode, plan.reason, plan.detail)


def _hold(writer: StepWriter, _: Hold, __: Materials) -> None:
    """Wait until a person resumes the task. Nothing of the step under way is kept; all mail stays where it is."""
    was = (writer.task.reason if writer.task.waits else "") or _ACTIVE
    keep_mail(writer)
    header = writer.keys.header
    writer.commit.set(header, status="waiting", reason=PAUSED, paused=was, fails=0, retry_since=0)
    writer.commit.set(header, paused_mail=writer.arrived.user_number)
    writer.commit.stamp(header, "updated")
    writer.commit.untimer(writer.keys, "retry")
    tell_children(writer, "pause")
    wait_for_person(writer, PAUSED)


def _resume(writer: StepWriter, _: Resume, __: Materials) -> None:
    """Go on where the task was paused, with the mail that has come meanwhile."""
    was = writer.task.paused
    postpone(writer)
    tell_children(writer, "resume")
    writer.commit.unset(writer.keys.header, "paused", "paused_mail")
    writer.commit.rewake()
    if was == _ACTIVE:
        if writer.task.queued:
            set_pending(writer)
        else:
            set_active(writer, "resumed")
        return
    writer.commit.set(writer.keys.header, status="waiting", reason=was)
    writer.commit.stamp(writer.keys.header, "updated")
    wait_for_person(writer, was)


def _still_paused(writer: StepWriter, _: StillPaused, __: Materials) -> None:
    """A message waits in the mailbox of a paused task: its sender is told so."""
    postpone(writer)
    writer.commit.set(writer.keys.header, status="waiting", paused_mail=writer.arrived.user_number)
    writer.commit.stamp(writer.keys.header, "updated")
    writer.emit(TaskStatusEvent, status="waiting", reason=PAUSED)
    writer.commit.timer(writer.keys, "stale", writer.limits.stale_ms)


def _answered(writer: StepWriter, _: Answered, __: Materials) -> None:
    """The person has spoken; tools are still under way. The message waits for their results."""
    postpone(writer)
    set_active(writer, "tools are still under way")


def _goes_on(writer: StepWriter, _: GoesOn, __: Materials) -> None:
    """The task is active again: whoever looks at it while its model is asked must not think that it waits."""
    postpone(writer)
    set_active(writer, "it goes on")
    writer.commit.rewake()


def _await_answers(writer: StepWriter, plan: AwaitAnswers, _: Materials) -> None:
    """Wait for persons' decisions or the client's results. Results and messages stay where they are until then."""
    postpone(writer)
    header = writer.keys.header
    writer.commit.set(header, status="waiting", reason=plan.reason, paused_mail=writer.arrived.user_number)
    writer.commit.stamp(writer.keys.header, "updated")
    wait_for_person(writer, plan.reason)


def _advance(writer: StepWriter, plan: Advance, materials: Materials) -> None:
    """Make the calls that have what they waited for, and ask about or answer the others."""
    postpone(writer)
    write_advance(writer, plan, materials.advance)


def _stale(writer: StepWriter, _: Stale, __: Materials) -> None:
    """Ask the person whether the task is still wanted. All stays as it is; a message goes on with it."""
    task = writer.task
    postpone(writer)
    writer.commit.set(writer.keys.header, status="stale", reason=task.reason if task.waits else "")
    writer.commit.tallies.count(metrics.tasks.labels("stale"))
    ends = f"; else it ends at {rfc3339(task.waiting_at + writer.limits.wait_ttl_ms)}" if task.waits else ""
    how = "resume it" if task.paused else _TO_GO_ON.get(task.reason, "send it a message")
    text = f"nothing has happened since {rfc3339(task.updated)}: is this still wanted? To go on, {how}{ends}"
    writer.emit(TaskStatusEvent, status="stale", reason=text)


def _enqueue(writer: StepWriter, _: Enqueue, __: Materials) -> None:
    """Others are active: wait until the task gets a place. All mail stays where it is."""
    postpone(writer)
    set_pending(writer)


def _start(writer: StepWriter, _: Start, __: Materials) -> None:
    """The task has got its place. Calls that are still under way have their time from now on."""
    postpone(writer)
    set_active(writer, "a place is free")
    if writer.task.open:
        writer.commit.stamp(writer.keys.header, "asked_at")
        writer.commit.timer(writer.keys, "timeout", writer.limits.step_timeout_ms)
    writer.commit.rewake()


WRITES: Mapping[type[Plan], Callable[[StepWriter, Any, Materials], None]] = MappingProxyType(
    {
        Advance: _advance,
        Answered: _answered,
        AwaitAnswers: _await_answers,
        End: _end,
        Enqueue: _enqueue,
        Finish: _finish,
        GoesOn: _goes_on,
        Hold: _hold,
        Idle: _idle,
        Pause: _pause,
        Reopen: _reopen,
        Resume: _resume,
        Stale: _stale,
        Start: _start,
        StillPaused: _still_paused,
    }
)
"""Writers by plan. `AskModel`, `CallAgain` and `GiveAway` are not here: they first ask a model or read other actors."""
