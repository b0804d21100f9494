"""The writer of one handling: its commit, and what has been written into it so far. It decides nothing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from pentad.contracts.envelope import Contract
from pentad.contracts.events import EndStatus, TaskUsage, ToolResultEvent
from pentad.contracts.hooks import HookCommand
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import DIRECT_CALL
from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import HOOKS
from pentad.contracts.tools import ApprovalMode, ToolOutcome, ToolSpec
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.services.task_runner.domain.plan import Timer
from pentad.services.task_runner.domain.strategy import EndedCall
from pentad.services.task_runner.domain.tool_search import remembered
from pentad.services.task_runner.domain.turn import current_turn, remaining
from pentad.services.task_runner.prompt import PINNED
from pentad.shared import metrics
from pentad.shared.actors.actors import Taken
from pentad.shared.actors.client_tools import CLIENT_TOOLS, kept_client_tools
from pentad.shared.actors.commit import Commit, CommitEvents
from pentad.shared.actors.headers import OpenCall, TaskHeader
from pentad.shared.actors.mail import ChildOutcome
from pentad.shared.actors.transcript import entry, message_of
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.models.ports import Usage


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
    """Writes one handling of a task into its commit: transcript, events, header and cost.

    What mail has brought is written by `mail_writer`, what becomes of the task by `status_writer`.
    """

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
        self.redrives_left = bool(arrived.redrives)
        """Whether redrives have come that this handling leaves in the mailbox."""
        self.is_call = task.instruction == DIRECT_CALL
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

    def tell_hook(self, command: HookCommand) -> None:
        """Queue what a hook is told, with this commit."""
        self.commit.queue(HOOKS, HOOKS.key(self.keys.shard), command)

    # Transcript

    def append(self, message: dict[str, Any], **meta: Any) -> None:
        """Append a message to the transcript."""
        if self.is_call:
            meta["origin"] = "call"
        raw = entry(message, TranscriptMeta(**({"at": self.at} | meta)))
        self.last_entry = raw
        if PINNED in (meta.get("metadata") or ()):
            self.pinned.append(len(self.added))
        self.added.append(message_of(raw))
        self.commit.log(raw)

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

    def count_child(self, used: TaskUsage) -> None:
        """Count what a task has used that this one has started: it counts against the turn's budget."""
        self._children_used = self._children_used.plus(used)
        self.turn = self.turn.with_child(used.input_tokens + used.output_tokens, used.usd)

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

    def find_tools(self, found: Sequence[ToolSpec]) -> None:
        """Keep which tools a search has found: later prompts have their schemas."""
        self._found_tools = remembered(self._found_tools, found)
        self.commit.set(self.keys.header, found_tools=self._found_tools)

    def _keep_client_tools(self) -> None:
        """Keep beside the task the tools that the sender of its last message has itself."""
        tools = self.arrived.users[-1].message.tools
        if tools and self.turn.client_tools != self.task.client_tools:
            self.commit.set(self.keys.big, **{CLIENT_TOOLS: kept_client_tools(tools)})
