"""Writes into a commit what becomes of the task: that it is active, waits, begins again or has ended, with its timers.

It decides nothing.
"""

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EndStatus, ErrorEvent, NodeStart, TaskEnd, TaskStart, TaskStatusEvent
from pentad.contracts.turns import ASKED
from pentad.services.task_runner.domain.message_move import MOVED
from pentad.services.task_runner.domain.plan import EndMode
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors.mail import ChildOutcome, ResultMail, SessionMessage
from pentad.shared.actors.session_header import fields_of_task, recent_field
from pentad.shared.actors.transcript import NODE
from pentad.shared.clipping import clip
from pentad.shared.keys import TURNS_KEPT, TaskKeys
from pentad.shared.kinds import RESULT, TimerKind

_REMEMBER_MS = 1_000
"""Milliseconds after its end at which a task is remembered. It is found within two seconds."""
_DETAIL = 2_000
"""Characters of a failure's words that an end tells."""
_REPORT_LIMIT = 256 * 1024
"""Bytes of its answer that a task reports to the task that has started it."""
_TIMERS: tuple[TimerKind, ...] = ("deadline", "timeout", "limit", "retry", "wait")
"""Timers that the end of a task removes; ``stale`` is removed separately."""


def leave_wait(writer: StepWriter) -> None:
    """The task waits for a person no longer, if it did. Time limits of graphs leave out the time of the wait."""
    task = writer.task
    if task.has_asked and task.parent:
        writer.commit.unset(writer.session.header, *fields_of_task(writer.keys.task))
    if not (task.graph and task.waits and task.waiting_at):
        return
    waited, fields = max(0, writer.clock() - task.waiting_at), dict[str, int]()
    fields |= {"waited": task.waited + waited, "node_waited": task.node_waited + waited}
    if task.limit_at and task.open:
        fields |= {"limit_at": task.limit_at + waited}
        writer.commit.due(writer.keys, "limit", task.limit_at + waited)
    writer.commit.set(writer.keys.header, **fields)


def set_active(writer: StepWriter, reason: str) -> None:
    """The task is active, and waits for nobody any more."""
    leave_wait(writer)
    writer.commit.set(writer.keys.header, status="active", reason="")
    writer.commit.stamp(writer.keys.header, "updated")
    writer.commit.tallies.count(metrics.tasks.labels("active"))
    writer.commit.untimer(writer.keys, "wait", "stale")
    watch_calls(writer)
    writer.emit(TaskStatusEvent, status="active", reason=reason)


def set_pending(writer: StepWriter) -> None:
    """The task waits for a place. No time but the deadline runs while others are active."""
    session, tenant = writer.limits.tasks_per_session, writer.limits.tasks_per_tenant
    whose, most = ("session", session) if writer.task.place == "s" else ("tenant", tenant)
    reason = f"as many tasks of its {whose} are active as may be: {most}"
    writer.commit.set(writer.keys.header, status="pending", reason=reason)
    writer.commit.stamp(writer.keys.header, "updated")
    writer.commit.tallies.count(metrics.tasks.labels("pending"))
    writer.commit.untimer(writer.keys, "timeout", "retry", "wait", "stale")
    writer.emit(TaskStatusEvent, status="pending", reason=reason)


def wait_for_person(writer: StepWriter, reason: str) -> None:
    """Tell clients that the task waits, set its timers, and renew the life of the session's header and last turns,
    which the answer needs.
    """
    _count_turn(writer, "waiting")
    writer.commit.stamp(writer.keys.header, "waiting_at")
    if writer.task.graph:
        writer.commit.untimer(writer.keys, "limit")
    if writer.task.parent and reason == ASKED:  # so that the person's answer finds its way without naming the task
        writer.commit.set(writer.session.header, **{recent_field(writer.keys.task): writer.clock()})
    writer.emit(TaskStatusEvent, status="waiting", reason=reason)
    writer.commit.timer(writer.keys, "wait", writer.limits.wait_ttl_ms)
    writer.commit.timer(writer.keys, "stale", writer.limits.stale_ms)
    if writer.arrived.left:
        writer.commit.rewake()
    for key in (writer.session.header, writer.session.turns):
        writer.commit.expire(key, writer.limits.session_ttl_s)


def limit_calls(writer: StepWriter, at: int) -> None:
    """Set the time limit of the graph's node, in ms of the server's clock, for the calls that are open."""
    writer.commit.set(writer.keys.header, limit_at=at)
    writer.commit.due(writer.keys, "limit", at)


def watch_calls(writer: StepWriter) -> None:
    """Ask after a while whether the task is still wanted, where calls may run for longer than that."""
    if writer.limits.stale_while_calling:
        writer.commit.timer(writer.keys, "stale", writer.limits.stale_ms)


def restart_task(writer: StepWriter) -> None:
    """An ended task begins again, unless the router has just opened it."""
    writer.commit.expect(writer.keys.header, writer.task.status)
    writer.commit.tallies.count(metrics.tasks.labels("active"))
    writer.emit(TaskStart, goal=writer.task.goal, metadata=writer.turn.metadata or None)
    if writer.task.graph:
        node = writer.task.node or writer.task.entry
        writer.commit.set(writer.keys.header, node=node)
        writer.emit(NodeStart, node=node, step=writer.task.step + 1)
    if writer.task.parent:
        writer.commit.untimer(writer.keys, "archive")
        return
    # Without a message it enters the session's recent tasks at time 0, so that a redrive does not draw the next
    # message to it.
    writer.commit.set_once(
        writer.session.header, recent_field(writer.keys.task), writer.turn.at if writer.arrived.users else 0
    )
    writer.commit.untimer(writer.keys, "archive")


def end_task(writer: StepWriter, status: EndStatus, mode: EndMode, reason: str, detail: str = "") -> None:
    """The task is over: its one ``task_end``, and the timers after which it is remembered and archived.

    ``mode``: what becomes of messages that have come meanwhile; ``detail``: the reason in words.
    """
    writer.commit.mode = mode
    _count_turn(writer, status)
    if writer.task.graph and writer.task.node and status != "completed" and not writer.run_failed:
        _stop_run(writer, ": ".join(filter(None, (reason, detail))))
    if status != "completed" and reason != MOVED and not writer.task.parent:
        add_session_turn(writer, f"[This was {status}: {reason}.]" if status == "failed" else f"[This was {status}.]")
    task, keys, session = writer.task, writer.keys, writer.session
    writer.commit.set(keys.header, status=status, reason=reason, open="", fails=0)
    writer.commit.stamp(keys.header, "ended_at")
    queues = (writer.arrived.queues and mode == "fail") or None
    told = {"reason": reason, "detail": detail[:_DETAIL] or None, "queues": queues}
    made = {"finish_reason": writer.spent.finish_reason, "steps": task.step + writer.spent.steps, "usage": writer.usage}
    writer.emit(TaskEnd, status=status, **told, **made)
    if detail or task.detail:
        writer.commit.set(keys.header, detail=detail[:_DETAIL])
    if status != "completed" or task.parent:  # the next message may still belong to what is completed
        writer.commit.unset(session.header, *fields_of_task(keys.task))
    if task.parent:
        _report(writer, status, reason, detail)
    else:
        writer.commit.set(session.header, done=keys.task)
        writer.commit.stamp(session.header, "done_at")
    writer.commit.unset(keys.header, "deadline", "asked_at", "retry_since", "waiting_at")
    if task.graph:
        writer.commit.unset(keys.header, "limit_at", "waited", "node_waited")
    if task.paused:
        writer.commit.unset(keys.header, "paused", "paused_mail")
    if task.queues and task.repairs:
        writer.commit.set(keys.header, repairs=0)
    writer.commit.untimer(keys, *_TIMERS)
    if task.waits or writer.limits.stale_while_calling:
        writer.commit.untimer(keys, "stale")
    writer.commit.timer(keys, "archive", writer.limits.grace_ms)
    remember_task(writer)
    if task.hooks_told:
        writer.commit.set(keys.header, hooks_told=0)
    if writer.on_end is not None:
        writer.on_end(writer, status, reason)
    if task.session:
        writer.commit.expire(session.header, writer.limits.session_ttl_s)
    if writer.redrives_left or writer.arrived.left:
        writer.commit.rewake()


def _stop_run(writer: StepWriter, why: str) -> None:
    """Say in the transcript that the run of the graph has stopped at its node, where a message may let it go on."""
    failed = {"kind": "failed", "node": writer.task.node, "at_ms": writer.clock(), "error": why[:_DETAIL]}
    writer.append({"role": NODE} | failed)
    writer.commit.set(writer.keys.header, log_length=writer.task.log_length + len(writer.added))


def _report(writer: StepWriter, status: EndStatus, reason: str, detail: str) -> None:
    """Tell the task that has started this one how it has ended."""
    ok, why = status == "completed", f"the task was {status}: {': '.join(filter(None, (reason, detail)))}"
    outcome = writer.outcome or ChildOutcome(status=status, value=writer.answer if ok else None)
    mail = ResultMail(
        tool_call_id=writer.task.parent_call,
        content=clip(writer.answer, _REPORT_LIMIT) if ok else f"error: {clip(why, _DETAIL)}",
        ok=ok,
        duration_ms=max(0, writer.clock() - writer.task.created),
        child=outcome.model_copy(update={"status": status, "usage": writer.usage}),
    )
    parent = TaskKeys(writer.keys.shard, writer.keys.tenant, writer.task.parent)
    writer.commit.report(parent, RESULT, mail.to_json())


def fail_task(writer: StepWriter, code: ErrorCode, text: str) -> None:
    """End the task because its turn has no answer. Messages that have come since begin the next turn."""
    writer.emit(ErrorEvent, code=code, message=text)
    end_task(writer, "failed", "fail", code.value, text)


def remember_task(writer: StepWriter) -> None:
    """Set the timer after which the task is written to memory; an end that a message overtakes leaves it out, and
    a later end moves it.
    """
    if not (writer.is_call or writer.task.parent):
        writer.commit.timer(writer.keys, "remember", _REMEMBER_MS)


def add_session_turn(writer: StepWriter, text: str) -> None:
    """Add a text to the session's last turns, with which the next task begins. A task that another has started is
    no turn of the session.
    """
    if writer.task.parent:
        return
    turn = SessionMessage(role="assistant", content=text[:MAX_CONTENT], task_id=writer.keys.task, at=writer.at)
    writer.commit.push(writer.session.turns, turn.to_json(), TURNS_KEPT)
    writer.commit.expire(writer.session.turns, writer.limits.session_ttl_s)


def _count_turn(writer: StepWriter, status: str) -> None:
    """Count that the task comes into this status, unless it stays waiting, and measure the time of its turn."""
    if status != "waiting" or not writer.task.waits:
        writer.commit.tallies.count(metrics.tasks.labels(status))
    writer.commit.tallies.measure(metrics.turn_seconds.labels(status), writer.turn.at)
