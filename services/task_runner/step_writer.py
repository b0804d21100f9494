"""The writer of one handling: primitives of which plans and answers become a commit. It decides nothing."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.envelope import Contract
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    EndStatus,
    ErrorEvent,
    NodeStart,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
    TaskUsage,
    ToolResultEvent,
)
from pentad.contracts.hooks import HookCommand
from pentad.contracts.ids import child_task_id, rfc3339
from pentad.contracts.instructions import DIRECT_CALL
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import HOOKS
from pentad.contracts.tools import RECALLING_TOOLS, ApprovalMode, OutcomeKind, ToolOutcome, ToolSpec
from pentad.contracts.turns import ASKED
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.services.task_runner.domain.message_move import MOVED
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED, GOES_ON
from pentad.services.task_runner.domain.plan import Closed, EndMode, Timer
from pentad.services.task_runner.domain.result_in_prompt import KeptResult, KeptResults
from pentad.services.task_runner.domain.strategy import EndedCall
from pentad.services.task_runner.domain.targets import asks_person, awaits_client, is_kept, starts_task, stays_open
from pentad.services.task_runner.domain.tool_search import remembered
from pentad.services.task_runner.domain.turn import current_turn, remaining
from pentad.services.task_runner.prompt import PINNED, tool_result, user
from pentad.shared import metrics
from pentad.shared.actors.actors import Taken
from pentad.shared.actors.approvals import kept_request, waits_in_index
from pentad.shared.actors.client_tools import CLIENT_CALL, CLIENT_TOOLS, kept_client_tools
from pentad.shared.actors.commit import Commit, CommitEvents
from pentad.shared.actors.headers import OpenCall, TaskHeader
from pentad.shared.actors.mail import ChildOutcome, ResultMail, SessionMessage, UserMail
from pentad.shared.actors.session_header import fields_of_task, recent_field
from pentad.shared.actors.transcript import NODE, entry, message_of
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.keys import TURNS_KEPT, SessionKeys, TaskKeys, approvals
from pentad.shared.kinds import RESULT, ControlKind, TimerKind
from pentad.shared.models.ports import Usage
from pentad.shared.workspace.media_types import IMAGES

log = logging.getLogger(__name__)

_REMEMBER_MS = 1_000
"""Milliseconds after its end at which a task is remembered. It is found within two seconds."""
EDITED = "approved_args"
"""Name in a result's metadata of the arguments with which a person has let the call be made."""
_DETAIL = 2_000
"""Characters of a failure's words that an end tells."""
_REPORT_LIMIT = 256 * 1024
"""Bytes of its answer that a task reports to the task that has started it."""
_TIMERS: tuple[TimerKind, ...] = ("deadline", "timeout", "limit", "retry", "wait")
"""Timers that the end of a task removes; ``stale`` is removed separately."""


@immutable
class Limits:
    """Settings that a commit depends on; times in ms where the name does not say otherwise."""

    grace_ms: int
    step_timeout_ms: int
    wait_ttl_ms: int
    stale_ms: int
    session_ttl_s: int
    tasks_per_session: int
    tasks_per_tenant: int
    shares_memory: bool
    """Whether messages without a user are remembered for the whole tenant, not for their session alone."""
    result_bytes: int
    """Bytes of one tool result that prompts hold."""
    approve: ApprovalMode
    """Calls that a person must allow although their tools do not ask for it."""
    approval_ms: int
    """How long a person has to decide about a call."""

    @property
    def stale_while_calling(self) -> bool:
        """Whether tool calls may run for longer than a task may be silent."""
        return self.stale_ms < self.step_timeout_ms


@immutable
class Spent:
    """Cost of this handling's model call, and how its answer ended."""

    usage: TaskUsage = field(default_factory=TaskUsage)
    finish_reason: str | None = None
    steps: int = 0
    """Number of steps: 1 where the answer is a step of the task."""


class StepWriter:
    """Writes one handling of a task into its commit: transcript, events, calls, header, timers and end."""

    def __init__(
        self, commit: Commit, keys: TaskKeys, task: TaskHeader, taken: Taken, arrived: Arrived, limits: Limits
    ) -> None:
        self.commit, self.keys, self.task, self.arrived, self.limits = commit, keys, task, arrived, limits
        self.session = SessionKeys(keys.shard, keys.tenant, task.session)
        self.turn = current_turn(task, arrived)
        self.attempt = taken.lease.attempt
        self.clock: Callable[[], int] = taken.clock
        """The server's clock in ms."""
        self.spent = Spent()
        self.added: list[bytes] = []
        """The messages that this handling appends to the transcript, as the model is sent them."""
        self.pinned: list[int] = []
        """Numbers of those of them that stay in prompts when older ones are shortened."""
        self.last_entry = b""
        """The last of them, as the transcript keeps it."""
        self.reads_results = bool(task.reads_results)
        """Whether the task has results too long for a prompt: they are stored whole, and prompts hold only a part."""
        self._events = CommitEvents(commit, self.session, rfc3339(self.clock()))
        self._redrives_left = bool(arrived.redrives)
        self._is_call = task.instruction == DIRECT_CALL
        """Whether the task is a tool call outside a conversation, of which nothing is remembered."""
        self.ended: list[EndedCall] = []
        """Calls that have ended with this handling, in their order."""
        self.still_open: list[OpenCall] = []
        """Open calls whose results are waited for further."""
        self.on_end: Callable[[StepWriter, EndStatus, str], None] | None = None
        """Takes the end of the task and its reason: hooks are told of it."""
        self.answer = ""
        """Text with which the task ends."""
        self.run_failed = False
        """Whether the transcript says that the run of the task's graph has failed."""
        self.outcome: ChildOutcome | None = None
        """Further outcome for the task that has started this one."""
        self._found_tools = task.found_tools
        self._children_used = TaskUsage()
        """Usage of tasks that this one has started and that have ended now."""

    def begin(self, early: Iterable[Timer], now: int) -> None:
        """Remove the handled signals from the mailbox, and set timers again that fired too early.

        ``now``: the server's time in ms.
        """
        self.commit.leaves_messages = self.arrived.left
        self.commit.unmail(self.arrived.control_numbers)
        if not self.arrived.controls.keys().isdisjoint(("cancel", "deadline", "pause", "resume")):
            self.commit.set(self.keys.header, control="")
        for timer in early:
            if timer.kind == "deadline":
                self.commit.due(self.keys, timer.kind, timer.at)
            else:
                self.commit.timer(self.keys, timer.kind, timer.at - now)
            if timer.counts_from:
                self.commit.stamp(self.keys.header, timer.counts_from)

    # Events

    @property
    def at(self) -> str:
        """When the events happen that are added from now on."""
        return self._events.at

    def read_clock(self) -> None:
        """Events from here on happen at this time: since the last, a model may have taken minutes."""
        self._events.at = rfc3339(self.clock())

    def envelope(self) -> dict[str, Any]:
        """The next event's envelope."""
        turn = self.turn
        return self._events.stamp(
            {
                "task_id": self.keys.task,
                "correlation_id": turn.correlation or None,
                "causation_id": self.commit.step_id,
                "traceparent": turn.traceparent or None,
                "deadline": rfc3339(self.task.deadline) if self.task.deadline else None,
                "budget": remaining(turn.budget, turn.tokens, turn.usd, turn.steps),
                "parent_task_id": self.task.parent or None,
                "node": self.task.branch or None,
            }
        )

    def stamped(self, **why: str) -> dict[str, Any]:
        """The next event's envelope, where the event is another task's. ``why``: its task and what caused it."""
        return self._events.stamp(why)

    def emit(self, kind: type[Contract], **fields: Any) -> None:
        """Add an event to the commit."""
        self.commit.event(self.session, kind.from_fields(self.envelope() | fields))

    def emit_result(self, call: str, tool: str, outcome: ToolOutcome, counted_for: str = "") -> None:
        """Tell the outcome of a call that no worker ends. ``counted_for``: the tool in metrics, if another name."""
        self.commit.tallies.count(metrics.tool_calls.labels(counted_for or tool, outcome.counted_as))
        self.commit.event(self.session, ToolResultEvent.of(self.envelope(), call, tool, outcome))

    # Transcript and mail

    def append(self, message: dict[str, Any], **meta: Any) -> None:
        """Append a message to the transcript."""
        if self._is_call:
            meta["origin"] = "call"
        raw = entry(message, TranscriptMeta(**({"at": self.at} | meta)))
        self.last_entry = raw
        if PINNED in (meta.get("metadata") or ()):
            self.pinned.append(len(self.added))
        self.added.append(message_of(raw))
        self.commit.log(raw)

    def append_mail(self, closed: Sequence[Closed], results: KeptResults, *, shared: bool = False) -> None:
        """Append results in the order of their calls, then the users' messages word for word.

        ``closed``: open calls that are given up; ``results``: those that have come; ``shared``: what
        is said here without a user is remembered for the whole tenant.
        """
        given_up = self._close_calls(closed)
        for call in self.task.open:
            result = self.arrived.results.get(call.id)
            if result is not None:
                self._end_with_result(call, result, results[call.id])
            elif call.id not in given_up and stays_open(call, self.arrived):
                self.still_open.append(call)
            else:
                outcome = given_up.get(call.id) or self._result_made_here(call)
                if call.inner_of:
                    continue
                self.ended.append(EndedCall(call.id, outcome.ok, outcome.for_model))
                if call.target != "branch":
                    self._append_result(call, outcome.for_model, ok=outcome.ok, duration_ms=outcome.duration_ms)
        self._append_messages(self.arrived.ended, self.arrived.ended_number, shared=shared)
        self._append_messages(self.arrived.users, self.arrived.user_number, shared=shared)
        arrived = self.arrived
        self.commit.unmail(arrived.result_numbers + arrived.decision_numbers + arrived.suspended_numbers)

    def _end_with_result(self, call: OpenCall, result: ResultMail, kept: KeptResult) -> None:
        """The result of a call has come. That of a task's branch is no message: the run of the graph has it."""
        if result.child is not None:
            self._count_child(result.child.usage)
        if is_kept(call):  # a failover has taken back the decision, and its call was made already
            self._forget_kept(call)
        if call.inner_of:  # the call that has made it ends too, without it
            self.forget_result(result)
            return
        self.ended.append(EndedCall(call.id, result.ok, kept.whole, result.child))
        if call.target == "task":
            kind: OutcomeKind = "ok" if result.ok else "error"
            told = kept.whole if result.ok else kept.whole.removeprefix("error: ")
            self.emit_result(call.id, call.tool, ToolOutcome(kind, told, result.duration_ms), counted_for="agent")
        if call.target != "branch":
            text = self._text_of(call.id, result, kept)
            images = [file.path for file in result.artifacts or () if file.media_type in IMAGES]
            self._append_result(call, text, ok=result.ok, duration_ms=result.duration_ms, images=images)

    def forget_result(self, result: ResultMail) -> None:
        """A result that was kept beside the task is needed no more."""
        if result.ref is not None:
            self.commit.unset(self.keys.big, result.ref)

    def _count_child(self, used: TaskUsage) -> None:
        """Count what a task has used that this one has started: it counts against the turn's budget."""
        self._children_used = self._children_used.plus(used)
        self.turn = self.turn.with_child(used.input_tokens + used.output_tokens, used.usd)

    def close_children(self, reason: str) -> None:
        """Give up the tasks of a node that the run leaves: they are cancelled."""
        for call in self.still_open:
            self.commit.unset(self.keys.calls, call.id)
            self._tell_child(call, "cancel")
        if self.still_open:
            log.debug("%s: %d tasks of a node are cancelled: %s", self.keys.actor, len(self.still_open), reason)
        self.still_open = []

    def tell_children(self, control: ControlKind) -> None:
        """Ask all tasks that this one has started to pause, to go on or to end."""
        for call in self.task.open:
            if starts_task(call) and call.id not in self.arrived.results:
                self._tell_child(call, control)

    def _tell_child(self, call: OpenCall, control: ControlKind) -> None:
        child = TaskKeys(self.keys.shard, self.keys.tenant, child_task_id(call.id))
        self.commit.report(child, control, b"{}", control)

    def keep_mail(self) -> None:
        """Leave mail that asks for something in the mailbox, and append messages that an end has covered."""
        self._append_messages(self.arrived.ended, self.arrived.ended_number)
        self.commit.leaves_messages = bool(self.arrived.users) or self.arrived.left
        if self.added:
            self.commit.set(self.keys.header, log_length=self.task.log_length + len(self.added))

    def use_redrives(self) -> None:
        """Use up redrives. A redrive that is left asks the task to go on after its end."""
        self.commit.unmail(self.arrived.redrive_numbers)
        self._redrives_left = False

    def _append_result(
        self, call: OpenCall, text: str, *, ok: bool, duration_ms: int | None, images: Sequence[str] = ()
    ) -> None:
        quotes_memory = call.tool in RECALLING_TOOLS and not awaits_client(call)
        origin = "recalled" if quotes_memory else None
        meta: dict[str, Any] = {"origin": origin, "failed": None if ok else True, "duration_ms": duration_ms}
        if call.decision:
            meta["metadata"] = dict(call.decision)
            if (edited := call.decision.get(EDITED)) is not None:
                text = f"(A person has changed the arguments of this call to {edited})\n{text}"
        self.append(tool_result(call.id, text, images), **meta)

    def _close_calls(self, closed: Sequence[Closed]) -> Mapping[str, ToolOutcome]:
        """Give up open calls, unless a result has just come: whoever runs them finds them closed. Return their
        outcomes."""
        if closed:
            self.commit.expect_no_new_result()
        outcomes: dict[str, ToolOutcome] = {}
        for each in closed:
            self.commit.unset(self.keys.calls, each.call.id)
            outcome = outcomes[each.call.id] = replace(each.outcome, duration_ms=self._since_asked(each.call))
            if starts_task(each.call):
                self._tell_child(each.call, "cancel")
            if is_kept(each.call):
                self._forget_kept(each.call)
            if each.call.target != "branch":
                self.emit_result(each.call.id, each.call.tool, outcome, _counted_for(each.call))
        return outcomes

    def _forget_kept(self, call: OpenCall) -> None:
        """A call that is not made, as far as the task knows, has ended."""
        self.forget_request(call.id)
        self.commit.untimer(self.keys, "expiry")

    def forget_request(self, call: str) -> None:
        """A call waits no more for a decision or for other calls."""
        index = approvals(self.keys.shard, self.keys.tenant)
        self.commit.leave(index, waits_in_index(self.keys.task, call))
        self.commit.unset(self.keys.big, kept_request(call))

    def _since_asked(self, call: OpenCall) -> int:
        """How long a call was open that is given up, in ms: nobody else knows how long it ran."""
        return max(0, self.clock() - self.task.asked_at) if self.task.asked_at and call.queue else 0

    def _result_made_here(self, call: OpenCall) -> ToolOutcome:
        """Return the outcome of an `ask_user` or `complete_task` call, which the task-runner answers itself."""
        if awaits_client(call):
            return self._left_by_client(call)
        done = GOES_ON if self.arrived.asks else COMPLETED
        outcome = ToolOutcome("ok", ANSWERED if asks_person(call) else done)
        self.emit_result(call.id, call.tool, outcome)
        return outcome

    def _left_by_client(self, call: OpenCall) -> ToolOutcome:
        """A message has come instead of the result that a client was to send: that is not taken any more."""
        self.commit.expect_no_new_result()
        self.commit.unset(self.keys.calls, call.id)
        outcome = ToolOutcome("cancelled", "the client has sent a message instead of a result")
        self.emit_result(call.id, call.tool, outcome, _counted_for(call))
        return outcome

    def _append_messages(self, messages: Sequence[UserMail], number: int, *, shared: bool = False) -> None:
        """Append users' messages; they wait no more. ``number``: of the last of them."""
        shares = shared or self.limits.shares_memory
        for mail in messages:
            for turn in mail.context:
                said = {"role": turn.role, "content": turn.content}
                self.append(said, at=turn.at, message_id=turn.message_id, origin="context", task_id=turn.task_id)
            message = mail.message
            self.append(
                user(message.content, message.files or ()),
                at=mail.at,
                message_id=message.message_id,
                user_id=message.user_id,
                memory_session=None if message.user_id or shares else self.task.session or None,
                deadline=message.deadline,
                budget=message.budget,
                metadata=message.metadata or None,
                traceparent=message.traceparent,
            )
        if number:
            self.commit.consume(number)

    def _text_of(self, call: str, result: ResultMail, kept: KeptResult) -> str:
        """The text of a result for prompts. A result that prompts hold in part stays beside the task, whole."""
        whole, text = kept.whole, kept.shown
        if kept.changed:  # what the tool returned is not kept
            if result.ref is not None:
                self.commit.unset(self.keys.big, result.ref)
            if text is not whole:
                self.keep_result(call, whole)
            return text
        if text is whole:
            if result.ref is not None:
                self.commit.unset(self.keys.big, result.ref)
            return text
        if result.ref is None:
            self.keep_result(call, whole)
        else:
            self._reads_results()
        return text

    def tell_hook(self, command: HookCommand) -> None:
        """Queue what a hook is told, with this commit."""
        self.commit.queue(HOOKS, HOOKS.key(self.keys.shard), command)

    def keep_result(self, call: str, whole: str) -> None:
        """Keep a result whole beside the task of which prompts have only a part."""
        self.commit.set_once(self.keys.big, call, whole)
        self._reads_results()

    def _reads_results(self) -> None:
        if not self.reads_results:
            self.reads_results = True
            self.commit.set(self.keys.header, reads_results=1)

    def find_tools(self, found: Sequence[ToolSpec]) -> None:
        """Keep which tools a search has found: later prompts have their schemas."""
        self._found_tools = remembered(self._found_tools, found)
        self.commit.set(self.keys.header, found_tools=self._found_tools)

    # Header and cost

    @property
    def repairs(self) -> int:
        """How often this turn's answer was asked for again."""
        return 0 if self.arrived.asks else self.task.repairs

    @property
    def usage(self) -> TaskUsage:
        """Usage of the task, with this handling and with the tasks that it has started and that have ended."""
        return self.task.usage.plus(self.spent.usage).plus(self._children_used)

    def spend(self, used: Usage, finish_reason: str | None, *, steps: int = 0, of_turn: bool = False) -> None:
        """Count what a model call has cost, and the step that it has led to.

        ``of_turn``: whether they also count against the turn's budget and step limit.
        """
        usage = TaskUsage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            usd=used.usd,
            cached_tokens=used.cached_tokens,
        )
        self.spent = Spent(usage, finish_reason, steps)
        if of_turn:
            self.turn = self.turn.after_step(used.input_tokens + used.output_tokens, used.usd)

    def spend_without_step(self, used: Usage, finish_reason: str | None) -> None:
        """Keep what a model call has cost that has led to no step."""
        self.spend(used, finish_reason)
        self.commit.set(self.keys.header, **self.usage.model_dump())

    def set_header(self, **fields: str | bytes | int | float) -> None:
        """Set these fields of the task's header, and those that tell whose turn it is and what it has used."""
        turn = self.turn
        if self.arrived.users:
            fields |= turn.message_fields
            self._keep_client_tools()
            if self.arrived.time_zone:
                fields |= {"time_zone": self.arrived.time_zone}
        if self.arrived.asks:
            fields |= {"turn_at": turn.at}
            if self.task.repairs:
                fields = {"repairs": 0} | fields
        if self.task.unanswered:
            fields = {"unanswered": 0} | fields
        fields |= {"turn_steps": turn.steps, "turn_tokens": turn.tokens, "turn_usd": turn.usd}
        if self.added:
            fields |= {"log_length": self.task.log_length + len(self.added)}
        self.commit.set(self.keys.header, **fields)
        self.commit.stamp(self.keys.header, "updated")

    def _keep_client_tools(self) -> None:
        """Keep beside the task the tools that the sender of its last message has itself."""
        tools = self.arrived.users[-1].message.tools
        if tools and self.turn.client_tools != self.task.client_tools:
            self.commit.set(self.keys.big, **{CLIENT_TOOLS: kept_client_tools(tools)})

    # Status

    def postpone(self, spent: Iterable[int] = ()) -> None:
        """Leave the mail, and do not count the attempt. ``spent``: numbers of signals that are not needed any more."""
        self.commit.unmail([number for number in spent if number not in self.arrived.control_numbers])
        self.keep_mail()
        self.commit.set(self.keys.header, attempt=self.attempt - 1)

    def leave_wait(self) -> None:
        """The task waits for a person no longer, if it did. Time limits of graphs leave out the time of the wait."""
        task = self.task
        if task.has_asked and task.parent:
            self.commit.unset(self.session.header, *fields_of_task(self.keys.task))
        if not (task.graph and task.waits and task.waiting_at):
            return
        waited, fields = max(0, self.clock() - task.waiting_at), dict[str, int]()
        fields |= {"waited": task.waited + waited, "node_waited": task.node_waited + waited}
        if task.limit_at and task.open:
            fields |= {"limit_at": task.limit_at + waited}
            self.commit.due(self.keys, "limit", task.limit_at + waited)
        self.commit.set(self.keys.header, **fields)

    def set_active(self, reason: str) -> None:
        """The task is active, and waits for nobody any more."""
        self.leave_wait()
        self.commit.set(self.keys.header, status="active", reason="")
        self.commit.stamp(self.keys.header, "updated")
        self.commit.tallies.count(metrics.tasks.labels("active"))
        self.commit.untimer(self.keys, "wait", "stale")
        self.watch_calls()
        self.emit(TaskStatusEvent, status="active", reason=reason)

    def set_pending(self) -> None:
        """The task waits for a place. No time but the deadline runs while others are active."""
        session, tenant = self.limits.tasks_per_session, self.limits.tasks_per_tenant
        whose, most = ("session", session) if self.task.place == "s" else ("tenant", tenant)
        reason = f"as many tasks of its {whose} are active as may be: {most}"
        self.commit.set(self.keys.header, status="pending", reason=reason)
        self.commit.stamp(self.keys.header, "updated")
        self.commit.tallies.count(metrics.tasks.labels("pending"))
        self.commit.untimer(self.keys, "timeout", "retry", "wait", "stale")
        self.emit(TaskStatusEvent, status="pending", reason=reason)

    def wait_for_person(self, reason: str) -> None:
        """Tell clients that the task waits, set its timers, and renew the life of the session's header and last turns,
        which the answer needs.
        """
        self._count_turn("waiting")
        self.commit.stamp(self.keys.header, "waiting_at")
        if self.task.graph:
            self.commit.untimer(self.keys, "limit")
        if self.task.parent and reason == ASKED:  # so that the person's answer finds its way without naming the task
            self.commit.set(self.session.header, **{recent_field(self.keys.task): self.clock()})
        self.emit(TaskStatusEvent, status="waiting", reason=reason)
        self.commit.timer(self.keys, "wait", self.limits.wait_ttl_ms)
        self.commit.timer(self.keys, "stale", self.limits.stale_ms)
        if self.arrived.left:
            self.commit.rewake()
        for key in (self.session.header, self.session.turns):
            self.commit.expire(key, self.limits.session_ttl_s)

    def limit_calls(self, at: int) -> None:
        """Set the time limit of the graph's node, in ms of the server's clock, for the calls that are open."""
        self.commit.set(self.keys.header, limit_at=at)
        self.commit.due(self.keys, "limit", at)

    def watch_calls(self) -> None:
        """Ask after a while whether the task is still wanted, where calls may run for longer than that."""
        if self.limits.stale_while_calling:
            self.commit.timer(self.keys, "stale", self.limits.stale_ms)

    def restart(self) -> None:
        """An ended task begins again, unless the router has just opened it."""
        self.commit.expect(self.keys.header, self.task.status)
        self.commit.tallies.count(metrics.tasks.labels("active"))
        self.emit(TaskStart, goal=self.task.goal, metadata=self.turn.metadata or None)
        if self.task.graph:
            node = self.task.node or self.task.entry
            self.commit.set(self.keys.header, node=node)
            self.emit(NodeStart, node=node, step=self.task.step + 1)
        if self.task.parent:
            self.commit.untimer(self.keys, "archive")
            return
        # Without a message it enters the session's recent tasks at time 0, so that a redrive does not draw the next
        # message to it.
        self.commit.set_once(
            self.session.header, recent_field(self.keys.task), self.turn.at if self.arrived.users else 0
        )
        self.commit.untimer(self.keys, "archive")

    # Ends

    def end(self, status: EndStatus, mode: EndMode, reason: str, detail: str = "") -> None:
        """The task is over: its one ``task_end``, and the timers after which it is remembered and archived.

        ``mode``: what becomes of messages that have come meanwhile; ``detail``: the reason in words.
        """
        self.commit.mode = mode
        self._count_turn(status)
        if self.task.graph and self.task.node and status != "completed" and not self.run_failed:
            self._stop_run(": ".join(filter(None, (reason, detail))))
        if status != "completed" and reason != MOVED and not self.task.parent:
            self.add_session_turn(f"[This was {status}: {reason}.]" if status == "failed" else f"[This was {status}.]")
        task, keys, session = self.task, self.keys, self.session
        self.commit.set(keys.header, status=status, reason=reason, open="", fails=0)
        self.commit.stamp(keys.header, "ended_at")
        queues = (self.arrived.queues and mode == "fail") or None
        told = {"reason": reason, "detail": detail[:_DETAIL] or None, "queues": queues}
        made = {"finish_reason": self.spent.finish_reason, "steps": task.step + self.spent.steps, "usage": self.usage}
        self.emit(TaskEnd, status=status, **told, **made)
        if detail or task.detail:
            self.commit.set(keys.header, detail=detail[:_DETAIL])
        if status != "completed" or task.parent:  # the next message may still belong to what is completed
            self.commit.unset(session.header, *fields_of_task(keys.task))
        if task.parent:
            self._report(status, reason, detail)
        else:
            self.commit.set(session.header, done=keys.task)
            self.commit.stamp(session.header, "done_at")
        self.commit.unset(keys.header, "deadline", "asked_at", "retry_since", "waiting_at")
        if task.graph:
            self.commit.unset(keys.header, "limit_at", "waited", "node_waited")
        if task.paused:
            self.commit.unset(keys.header, "paused", "paused_mail")
        if task.queues and task.repairs:
            self.commit.set(keys.header, repairs=0)
        self.commit.untimer(keys, *_TIMERS)
        if task.waits or self.limits.stale_while_calling:
            self.commit.untimer(keys, "stale")
        self.commit.timer(keys, "archive", self.limits.grace_ms)
        self.remember()
        if task.hooks_told:
            self.commit.set(keys.header, hooks_told=0)
        if self.on_end is not None:
            self.on_end(self, status, reason)
        if task.session:
            self.commit.expire(session.header, self.limits.session_ttl_s)
        if self._redrives_left or self.arrived.left:
            self.commit.rewake()

    def _stop_run(self, why: str) -> None:
        """Say in the transcript that the run of the graph has stopped at its node, where a message may let it go on."""
        failed = {"kind": "failed", "node": self.task.node, "at_ms": self.clock(), "error": why[:_DETAIL]}
        self.append({"role": NODE} | failed)
        self.commit.set(self.keys.header, log_length=self.task.log_length + len(self.added))

    def _report(self, status: EndStatus, reason: str, detail: str) -> None:
        """Tell the task that has started this one how it has ended."""
        ok, why = status == "completed", f"the task was {status}: {': '.join(filter(None, (reason, detail)))}"
        outcome = self.outcome or ChildOutcome(status=status, value=self.answer if ok else None)
        mail = ResultMail(
            tool_call_id=self.task.parent_call,
            content=clip(self.answer, _REPORT_LIMIT) if ok else f"error: {clip(why, _DETAIL)}",
            ok=ok,
            duration_ms=max(0, self.clock() - self.task.created),
            child=outcome.model_copy(update={"status": status, "usage": self.usage}),
        )
        parent = TaskKeys(self.keys.shard, self.keys.tenant, self.task.parent)
        self.commit.report(parent, RESULT, mail.to_json())

    def fail(self, code: ErrorCode, text: str) -> None:
        """End the task because its turn has no answer. Messages that have come since begin the next turn."""
        self.emit(ErrorEvent, code=code, message=text)
        self.end("failed", "fail", code.value, text)

    def remember(self) -> None:
        """Set the timer after which the task is written to memory; an end that a message overtakes leaves it out, and
        a later end moves it.
        """
        if not (self._is_call or self.task.parent):
            self.commit.timer(self.keys, "remember", _REMEMBER_MS)

    def add_session_turn(self, text: str) -> None:
        """Add a text to the session's last turns, with which the next task begins. A task that another has started is
        no turn of the session.
        """
        if self.task.parent:
            return
        turn = SessionMessage(role="assistant", content=text[:MAX_CONTENT], task_id=self.keys.task, at=self.at)
        self.commit.push(self.session.turns, turn.to_json(), TURNS_KEPT)
        self.commit.expire(self.session.turns, self.limits.session_ttl_s)

    def _count_turn(self, status: str) -> None:
        """Count that the task comes into this status, unless it stays waiting, and measure the time of its turn."""
        if status != "waiting" or not self.task.waits:
            self.commit.tallies.count(metrics.tasks.labels(status))
        self.commit.tallies.measure(metrics.turn_seconds.labels(status), self.turn.at)


def _counted_for(call: OpenCall) -> str:
    """Return the name under which metrics count a call whose tool a client has named; '' for the tool's own."""
    return CLIENT_CALL if awaits_client(call) else ""
