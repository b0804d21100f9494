"""One handling of a task, written down as a commit. Each function adds what its outcome means and nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    EndStatus,
    ErrorEvent,
    TaskEnd,
    TaskStart,
    TaskStatus,
    TaskStatusEvent,
    TaskUsage,
    ToolResultEvent,
)
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.tools import RECALLING_TOOLS, ToolOutcome
from pentad.services.task_runner.counters import Limits, counters
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.services.task_runner.domain.giving_away import MOVED
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED, GOES_ON
from pentad.services.task_runner.domain.plan import Closed, Timer
from pentad.services.task_runner.domain.result_in_prompt import KeptResult, KeptResults
from pentad.services.task_runner.domain.retry import Retry
from pentad.services.task_runner.prompt import tool_result, user
from pentad.services.task_runner.task_events import TaskEvents
from pentad.shared import metrics
from pentad.shared.actors.actors import Taken
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.headers import OpenCall, TaskHeader
from pentad.shared.actors.mail import ResultMail, SessionMessage, UserMail
from pentad.shared.actors.session_header import fields_of_task, recent_field
from pentad.shared.actors.transcript import entry, message_of
from pentad.shared.keys import TURNS_KEPT, TaskKeys
from pentad.shared.kinds import TimerKind

_REMEMBER_MS = 1_000
"""How long after its end a task is remembered. It is found within two seconds."""
_DETAIL = 2_000
"""Characters of a failure's words that an end tells."""
_TIMERS: tuple[TimerKind, ...] = ("deadline", "timeout", "retry", "wait")


class TurnWriter(TaskEvents):
    """Writes one handling into a commit."""

    def __init__(
        self,
        commit: Commit,
        keys: TaskKeys,
        task: TaskHeader,
        taken: Taken,
        arrived: Arrived,
        limits: Limits,
        unique: Callable[[], str],
        early: Sequence[Timer],
    ) -> None:
        super().__init__(commit, keys, task, counters(task, arrived), taken.clock)
        self._lease, self._arrived, self._limits, self._unique = taken.lease, arrived, limits, unique
        self.added: list[bytes] = []
        """The messages that this handling appends to the transcript, as the model is sent them."""
        self.shares_memory = limits.shares_memory
        """Whether what is said here without a user is remembered for the whole tenant, not for the session alone."""
        self.last_entry = b""
        self.reads_results = bool(task.reads_results)
        """Whether results are kept beside the task of which prompts hold a part."""
        self._redrives_left = bool(arrived.redrives)
        commit.leaves_messages = arrived.left
        commit.unmail(arrived.control_numbers)
        if not arrived.controls.keys().isdisjoint(("cancel", "deadline", "pause", "resume")):
            commit.set(keys.header, control="")
        for timer in early:
            if timer.kind == "deadline":
                commit.due(keys, timer.kind, timer.at)
            else:
                commit.timer(keys, timer.kind, timer.at - taken.lease.now)
            if timer.counts_from:
                commit.stamp(keys.header, timer.counts_from)

    # What all share

    def _log(self, message: dict[str, Any], **meta: Any) -> None:
        raw = entry(message, TranscriptMeta(**({"at": self.at} | meta)))
        self.last_entry = raw
        self.added.append(message_of(raw))
        self.commit.log(raw)

    def _close(self, closed: Sequence[Closed]) -> None:
        """Give up open calls, unless a result has just come: whoever runs them finds them closed."""
        if closed:
            self.commit.expect_no_new_result()
        for c in closed:
            self.commit.unset(self.keys.calls, c.call.id)
            self.commit.tallies.count(metrics.tool_calls.labels(c.call.tool, c.outcome.counted_as))
            told = c.outcome.told | {"duration_ms": self._since_asked(c.call)}
            self.emit(ToolResultEvent, tool_call_id=c.call.id, tool=c.call.tool, **told)

    def _since_asked(self, call: OpenCall) -> int:
        """How long a call was open that is given up, in ms: nobody else knows how long it ran."""
        return max(0, self._clock() - self.task.asked_at) if self.task.asked_at and call.queue else 0

    def place_mail(self, closed: Sequence[Closed], results: KeptResults) -> None:
        """Results in the order of their calls, then the users' messages word for word."""
        self._close(closed)
        given_up = {c.call.id: c.outcome.for_model for c in closed}
        for call in self.task.open:
            result = self._arrived.results.get(call.id)
            if result is not None:
                text = self._text(call.id, result, results[call.id])
            else:
                text = given_up.get(call.id) or self._own_result(call)
            self._log(tool_result(call.id, text), origin="recalled" if call.tool in RECALLING_TOOLS else None)
        self._place_messages(self._arrived.ended, self._arrived.ended_number)
        self._place_messages(self._arrived.users, self._arrived.user_number)
        self.commit.unmail(self._arrived.result_numbers)

    def _own_result(self, call: OpenCall) -> str:
        """The result of a call that no worker runs: what it waited for is there."""
        done = GOES_ON if self._arrived.asks else COMPLETED
        outcome = ToolOutcome("ok", ANSWERED if call.for_person else done)
        self.commit.tallies.count(metrics.tool_calls.labels(call.tool, outcome.counted_as))
        self.emit(ToolResultEvent, tool_call_id=call.id, tool=call.tool, **outcome.told)
        return outcome.for_model

    def use_redrives(self) -> None:
        """What was redriven is done with this handling. Left where it is, it asks the task to go on after its end."""
        self.commit.unmail(self._arrived.redrive_numbers)
        self._redrives_left = False

    def _place_messages(self, messages: Sequence[UserMail], number: int) -> None:
        """Users' messages, word for word; they wait no more. ``number``: of the last of them."""
        for mail in messages:
            for turn in mail.context:
                said = {"role": turn.role, "content": turn.content}
                self._log(said, at=turn.at, message_id=turn.message_id, origin="context", task_id=turn.task_id)
            m = mail.message
            self._log(
                user(m.content),
                at=mail.at,
                message_id=m.message_id,
                user_id=m.user_id,
                memory_session=None if m.user_id or self.shares_memory else self.task.session or None,
                deadline=m.deadline,
                budget=m.budget,
            )
        if number:
            self.commit.consume(number)

    def _text(self, call: str, result: ResultMail, kept: KeptResult) -> str:
        """What prompts hold of a result. One that they hold a part of stays beside the task, whole."""
        whole, text = kept.whole, kept.shown
        if text is whole:
            if result.ref is not None:
                self.commit.unset(self.keys.big, result.ref)
            return text
        if result.ref is None:
            self.commit.set_once(self.keys.big, call, whole)
        if not self.reads_results:
            self.reads_results = True
            self.commit.set(self.keys.header, reads_results=1)
        return text

    def _header(self, **fields: str | bytes | int | float) -> None:
        t = self.turn
        if self._arrived.users:
            budget = t.budget.to_json() if t.budget else b""
            fields |= {"correlation": t.correlation, "traceparent": t.traceparent, "budget": budget}
            fields |= {"speaker": t.speaker}
            if self._arrived.time_zone:
                fields |= {"time_zone": self._arrived.time_zone}
        if self._arrived.asks:
            fields |= {"turn_at": t.at}
            if self.task.repairs:
                fields = {"repairs": 0} | fields
        if self.task.unanswered:
            fields = {"unanswered": 0} | fields
        fields |= {"turn_steps": t.steps, "turn_tokens": t.tokens, "turn_usd": t.usd}
        if self.added:
            fields |= {"log_length": self.task.log_length + len(self.added)}
        self.commit.set(self.keys.header, **fields)
        self.commit.stamp(self.keys.header, "updated")

    # Outcomes

    def idle(self, spent: Sequence[int]) -> None:
        """Nothing happened: the attempt does not count."""
        self.commit.unmail([n for n in spent if n not in self._arrived.control_numbers])
        self._leave_mail()
        self.commit.set(self.keys.header, attempt=self._lease.attempt - 1)

    def _leave_mail(self) -> None:
        """What asks for something stays in the boxes; messages of what has ended find their place."""
        self._place_messages(self._arrived.ended, self._arrived.ended_number)
        self.commit.leaves_messages = bool(self._arrived.users) or self._arrived.left
        if self.added:
            self.commit.set(self.keys.header, log_length=self.task.log_length + len(self.added))

    def restart(self) -> None:
        """An ended task begins again, unless the router has just opened it."""
        self.commit.expect(self.keys.header, self.task.status)
        self.commit.tallies.count(metrics.tasks.labels("active"))
        self.emit(TaskStart, goal=self.task.goal)
        # Nobody has spoken to it: what was redriven does not draw the conversation to itself.
        self.commit.set_once(
            self.session.header, recent_field(self.keys.task), self.turn.at if self._arrived.users else 0
        )
        self.commit.untimer(self.keys, "archive")

    def reopen(self, deadline: int) -> None:
        """Begin again with messages that the end had left: their turn is the next handling's. ``deadline``: in ms."""
        self.restart()
        self.idle(())
        self.commit.set(self.keys.header, status="active", reason="")
        self.commit.stamp(self.keys.header, "updated")
        if deadline:
            self.commit.set(self.keys.header, deadline=deadline)
            self.commit.due(self.keys, "deadline", deadline)
        self.commit.rewake()

    def end(self, status: EndStatus, reason: str, detail: str = "") -> None:
        """The task is over: its one ``task_end``, and the timer after which it is archived. The commit's mode is set by
        then. ``detail``: the reason in words."""
        self._turn_is_over(status)
        if status != "completed" and reason != MOVED:
            self._remember(f"[This was {status}: {reason}.]" if status == "failed" else f"[This was {status}.]")
        t = self.task
        keys, session = self.keys, self.session
        self.commit.set(keys.header, status=status, reason=reason, open="", fails=0)
        self.commit.stamp(keys.header, "ended_at")
        queues = (self._arrived.queues and self.commit.mode == "fail") or None
        told = {"reason": reason, "detail": detail[:_DETAIL] or None, "queues": queues}
        self.emit(
            TaskEnd, status=status, **told, finish_reason=self._finish_reason, steps=self._steps, usage=self._usage
        )
        if detail or t.detail:
            self.commit.set(keys.header, detail=detail[:_DETAIL])
        if status != "completed":  # the next message may still belong to what is completed
            self.commit.unset(session.header, *fields_of_task(keys.task))
        self.commit.set(session.header, done=keys.task)
        self.commit.stamp(session.header, "done_at")
        self.commit.unset(keys.header, "deadline", "asked_at", "retry_since", "waiting_at")
        if t.paused:
            self.commit.unset(keys.header, "paused", "paused_mail")
        if t.queues and t.repairs:
            self.commit.set(keys.header, repairs=0)
        self.commit.untimer(keys, *_TIMERS)
        if t.waits or self._limits.stale_while_calling:
            self.commit.untimer(keys, "stale")
        self.commit.timer(keys, "archive", self._limits.grace_ms)
        self.remember()
        if t.session:
            self.commit.expire(session.header, self._limits.session_ttl_s)
        if self._redrives_left or self._arrived.left:
            self.commit.rewake()

    def remember(self) -> None:
        """What was said in the task is to be found soon. Not while turn follows turn: each would be written anew."""
        self.commit.timer(self.keys, "remember", _REMEMBER_MS)

    def _turn_is_over(self, status: TaskStatus) -> None:
        """Counted: the task comes into this status, unless it stays waiting, and the time of its turn."""
        if status != "waiting" or not self.task.waits:
            self.commit.tallies.count(metrics.tasks.labels(status))
        self.commit.tallies.measure(metrics.turn_seconds.labels(status), self.turn.at)

    def retry(self, again: Retry, why: str) -> None:
        """Keep everything where it is and try later; the attempt goes on growing."""
        if not self.task.retry_since:
            self.emit(TaskStatusEvent, status="active", reason=f"the model is asked again: {why}")
        self.commit.set(self.keys.header, fails=again.fails, retry_since=again.retry_since)
        self.commit.timer(self.keys, "retry", again.delay_ms)

    def fail(self, code: ErrorCode, text: str) -> None:
        """The turn has no answer: told why, and the task ends. Messages that have come since begin the next turn."""
        self.emit(ErrorEvent, code=code, message=text)
        self.commit.mode = "fail"
        self.end("failed", code.value, text)

    @property
    def repairs(self) -> int:
        """How often this turn's answer was asked for again."""
        return 0 if self._arrived.asks else self.task.repairs

    @property
    def _steps(self) -> int:
        return self.task.step + self._made

    _made = 0
    _finish_reason: str | None = None
    _answer_usage = TaskUsage()

    @property
    def _usage(self) -> TaskUsage:
        t, a = self.task, self._answer_usage
        return TaskUsage(
            input_tokens=t.input_tokens + a.input_tokens,
            output_tokens=t.output_tokens + a.output_tokens,
            usd=t.usd + a.usd,
        )

    def ended_without_answer(self) -> None:
        """Header fields of a handling that placed mail and made no step."""
        self._header()

    def _remember(self, text: str) -> None:
        """Into the session's last turns, which the next task begins with: also that a request is not to be done."""
        turn = SessionMessage(role="assistant", content=text[:MAX_CONTENT], task_id=self.keys.task, at=self.at)
        self.commit.push(self.session.turns, turn.to_json(), TURNS_KEPT)
        self.commit.expire(self.session.turns, self._limits.session_ttl_s)
