"""The events that clients get, in order, from the event stream of their session. The entry id is the cursor."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from pentad.contracts.envelope import Contract, Envelope
from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import Identifier
from pentad.contracts.suspensions import Needs
from pentad.contracts.tools import Effect, KeptFile, ToolOutcome

INTERRUPTED: Literal["interrupted"] = "interrupted"
"""Finish reason of an answer that a new message has cut short."""
EXPIRED: Literal["expired"] = "expired"
"""Reason of an approval that nobody has given or refused in time."""
TOOL_TEXT_LIMIT = 16 * 1024
"""Bytes of a tool's result or progress that an event carries; the rest of a result is kept by reference."""
_ARGS = ".args"
TaskStatus = Literal["pending", "active", "waiting", "stale", "completed", "failed", "cancelled"]
EndStatus = Literal["completed", "failed", "cancelled"]
Decision = Literal["new", "append", "reopen", "control", "rejected"]
ControlAction = Literal["cancel", "progress", "pause", "resume"]
"""Action on a task that a person requests in words, such as "cancel that" or "how far are you"."""
RoutingStage = Literal["rule", "similarity", "model"]
"""Stage of routing that decided to which task a message goes: a rule, the similarity of words and meaning, or a
model."""


def message_ref(step: int) -> str:
    """Return the name under which the text of a step is kept."""
    return f"message-{step}"


def args_ref(tool_call_id: str) -> str:
    """Return the name under which the arguments of a tool call are kept."""
    return f"{tool_call_id}{_ARGS}"


def call_of_args(ref: str) -> str | None:
    """Return the id of the tool call from a name that `args_ref` has made; None for any other name."""
    return ref.removesuffix(_ARGS) if ref.endswith(_ARGS) else None


class TaskUsage(Contract):
    """Tokens and dollars that a task has used so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    cached_tokens: int = 0
    """Input tokens that servers had in their caches; absent: servers have told of none."""

    @model_serializer(mode="wrap")
    def _without_none_cached(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: count for name, count in serialize(self).items() if count or name != "cached_tokens"}

    def plus(self, other: "TaskUsage") -> "TaskUsage":
        """Return the sum of both."""
        return TaskUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=self.usd + other.usd,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


class ClientEvent(Envelope):
    """The base of all events on an event stream."""

    version: Literal[1] = 1


class MessageRouted(ClientEvent):
    """A message was routed: to which task, and why."""

    type: Literal["message_routed"] = "message_routed"
    message_id: str
    decision: Decision
    confidence: float
    reason: str
    stage: RoutingStage | None = None
    """The stage that decided; events of versions before 0.2 have none."""
    candidates: list[str] = Field(default_factory=list)
    """Ids of the tasks that the message could have gone to."""
    scores: dict[str, float] | None = None
    """Probability of each candidate, 0 to 1, if they were compared; the rest up to 1 is for less likely tasks and for a
    new task."""
    metadata: dict[str, str] | None = None
    """Metadata of the message; absent: it has none."""


class ControlResult(ClientEvent):
    """A message asked only for an action on a task: the action is done, and no task gets the message."""

    type: Literal["control_result"] = "control_result"
    message_id: str
    action: ControlAction
    content: str
    """Result of the action, in the language of the message."""


class PastEffect(Contract):
    """A tool call whose effect may have happened and is not undone."""

    tool_call_id: str
    tool: str
    effect: Effect


class MessageMoved(ClientEvent):
    """A person moved a message to another task, which answers it. ``task_id`` is the task that had it before."""

    type: Literal["message_moved"] = "message_moved"
    message_id: str
    from_task_id: str
    to_task_id: str
    emptied: bool = False
    """Whether the first task had no other message and is cancelled. A live task still gets its ``task_end``."""
    effects: list[PastEffect] = Field(default_factory=list)
    """Tool calls that the first task made for the message, those aside that only read."""
    later_steps: list[int] = Field(default_factory=list)
    """Steps of the first task that came after the message and stay: their answers may be based on it."""


class Compacted(ClientEvent):
    """Earlier messages of a task are summarised, or left out, in prompts from here on; its transcript keeps them."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    type: Literal["compacted"] = "compacted"
    first: int = Field(alias="from")
    """Position in the transcript of the first of these messages."""
    last: int = Field(alias="to")
    """Position in the transcript of the last of these messages."""
    tokens_before: int
    """Tokens of the prompt with these messages, as they are counted before a model is asked."""
    tokens_after: int
    """Tokens of the prompt with the summary instead."""


class ForkPoint(Contract):
    """The step of another task with which a fork of it begins."""

    task_id: Identifier
    step: int
    """Last step of that task that the fork shares; 0: it begins before the first one."""


class TaskStart(ClientEvent):
    """A task began, or began again after its end."""

    type: Literal["task_start"] = "task_start"
    goal: str
    metadata: dict[str, str] | None = None
    """Metadata of the message with which the task begins; absent: it has none."""
    forked_from: ForkPoint | None = None
    """Task and step that the task is a fork of; absent: it is none."""


class Delta(ClientEvent):
    """A piece of an attempt's text, written outside the transaction.

    It is void once a delta or message of the same step has a higher ``attempt``.
    """

    step: int
    attempt: int
    offset: int
    """Characters of this attempt's text before this piece."""
    content: str


class Thinking(Delta):
    """A piece of the model's reasoning."""

    type: Literal["thinking"] = "thinking"


class Content(Delta):
    """A piece of the model's answer."""

    type: Literal["content"] = "content"


class MessageEvent(ClientEvent):
    """The whole text of a step: durable, and written after the step's deltas."""

    type: Literal["message"] = "message"
    step: int
    attempt: int
    content: str
    finish_reason: str | None = None
    """Reason why the model stopped, in OpenAI's words, or `INTERRUPTED`. Events of versions before 0.2 have none."""
    model: str | None = None
    """Name of the model that answered, as its server gives it."""
    model_id: str | None = None
    """Id of that model in the registry; absent for the model that the environment names."""
    ref: str | None = None
    """Name under which the whole text is kept when ``content`` was cut."""


class ToolCallEvent(ClientEvent):
    """The model called a tool."""

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str
    tool: str
    args: dict[str, Any] | str
    """Arguments of the call; the raw text when they do not parse or were cut."""
    ref: str | None = None
    """Name under which the whole arguments are kept when ``args`` was cut."""
    parent_call_id: str | None = None
    """Id of the call that makes this one on its way; absent: the model has asked for it."""
    client: bool | None = None
    """Set to true for a tool of the client that has sent the turn's message: it makes the call, and sends the result;
    absent: Pentad makes it."""


class ToolProgress(ClientEvent):
    """A running tool reported its progress. This event is not durable."""

    type: Literal["tool_progress"] = "tool_progress"
    tool_call_id: str
    tool: str
    content: str
    fraction: float | None = None


class ToolResultEvent(ClientEvent):
    """The one outcome of a tool call: ``result`` or ``error``."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    tool: str
    result: str | None = None
    error: str | None = None
    duration_ms: int = 0
    ref: str | None = None
    """Name under which the whole result is kept when ``result`` was cut."""
    artifacts: list[KeptFile] | None = None
    """Files of the session that the call has made."""

    @classmethod
    def of(
        cls, envelope: Mapping[str, Any], call: str, tool: str, outcome: ToolOutcome, ref: str | None = None
    ) -> "ToolResultEvent":
        """Return the event for this outcome. ``envelope`` holds the fields of `Envelope`."""
        return cls.from_fields({**envelope, "tool_call_id": call, "tool": tool, **outcome.told, "ref": ref})


class ApprovalRequest(ClientEvent):
    """A tool call waits for a person's approval."""

    type: Literal["approval_request"] = "approval_request"
    tool_call_id: str
    tool: str
    args: dict[str, Any] | str
    """Arguments of the call; the beginning of their text when they were cut."""
    effect: Effect
    args_digest: str | None = None
    """Digest of the arguments, by which a decision can name what it is about."""
    reason: str | None = None
    """Reason why a person is asked."""
    expires_at: str | None = None
    """Time after which nobody can decide any more, and the call is not made."""
    needs: Needs | None = None
    """Kind of the question, if it is not whether the call may be made; ``reason`` has it in words."""
    form: dict[str, Any] | None = None
    """JSON schema of the values that are asked for: they are the ``args`` of the decision."""
    approvers: list[str] | None = None
    """Users who may decide; absent: everyone who may decide in this session."""
    ref: str | None = None
    """Name under which the whole arguments are kept when ``args`` was cut."""


class ApprovalEvent(ClientEvent):
    """The one decision about a tool call that waited for a person's approval."""

    type: Literal["approval"] = "approval"
    tool_call_id: str
    approved: bool
    by: str | None = None
    """Who decided: a user's id, or ``key:TENANT`` for the holder of an API key; absent: nobody did in time."""
    args: dict[str, Any] | str | None = None
    """Arguments with which the call is made instead, if the person has changed them."""
    reason: str = ""
    """Reason that the person gave; `EXPIRED` when nobody decided in time."""


class TaskStatusEvent(ClientEvent):
    """The status of a task changed, and the task goes on."""

    type: Literal["task_status"] = "task_status"
    status: Literal["pending", "active", "waiting", "stale"]
    reason: str = ""


class TaskEnd(ClientEvent):
    """A task ended; each ``task_start`` is followed by one ``task_end``."""

    type: Literal["task_end"] = "task_end"
    status: EndStatus
    reason: str = ""
    detail: str | None = None
    """Explanation of the reason, if there is one: what failed, and what to do about it."""
    queues: bool | None = None
    """Whether the instruction queues messages. If so, this event ends only the turn of the message that
    ``correlation_id`` names: other messages to the task have turns of their own."""
    finish_reason: str | None = None
    """Reason why the model stopped, as in the last `message`: `length` and `content_filter` mean that the answer of a
    completed task is incomplete. Absent if the task did not end with an answer."""
    steps: int = 0
    usage: TaskUsage = TaskUsage()


class NodeStart(ClientEvent):
    """A task that runs a graph has come to a node, which ``node`` names."""

    type: Literal["node_start"] = "node_start"
    step: int
    """First step of the task that belongs to the node."""


class NodeEnd(ClientEvent):
    """A task that runs a graph has left a node, which ``node`` names."""

    type: Literal["node_end"] = "node_end"
    step: int
    """Last step of the task when the node ended."""
    duration_ms: int
    next: str | None = None
    """Key of the node that follows; absent: the run ends."""
    error: str | None = None
    """Reason why the node failed; absent: it has not."""


class Snapshot(ClientEvent):
    """The state of a session, from which a client continues when its cursor is too old."""

    type: Literal["snapshot"] = "snapshot"
    tasks: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class ErrorEvent(ClientEvent):
    """A request was refused or an error happened; the message says what to do about it."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str
    message_id: str | None = None
    retry_after: float | None = None
    """Seconds after which to try again."""


SessionEvent = Annotated[
    MessageRouted
    | ControlResult
    | MessageMoved
    | Compacted
    | TaskStart
    | Thinking
    | Content
    | MessageEvent
    | ToolCallEvent
    | ToolProgress
    | ToolResultEvent
    | ApprovalRequest
    | ApprovalEvent
    | TaskStatusEvent
    | NodeStart
    | NodeEnd
    | TaskEnd
    | Snapshot
    | ErrorEvent,
    Field(discriminator="type"),
]
event_adapter: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)

EPHEMERAL = frozenset({"thinking", "content", "tool_progress"})
"""Types of the events that are written outside the transaction; all others are durable and written exactly once."""
