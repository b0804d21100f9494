"""What clients are told, in order, on their session's event stream. The entry id is the cursor."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from pentad.contracts.envelope import Contract, Envelope
from pentad.contracts.errors import ErrorCode
from pentad.contracts.tools import Effect, ToolOutcome

INTERRUPTED: Literal["interrupted"] = "interrupted"
"""The finish reason of an answer that a message has cut short."""
_ARGS = ".args"
TaskStatus = Literal["pending", "active", "waiting", "stale", "completed", "failed", "cancelled"]
EndStatus = Literal["completed", "failed", "cancelled"]
Decision = Literal["new", "append", "reopen", "control", "rejected"]
ControlAction = Literal["cancel", "progress", "pause", "resume"]
"""What a person asks for in words: "cancel that", "how far are you"."""
RoutingStage = Literal["rule", "similarity", "model"]
"""What decided where a message goes: a rule, the weighing of its words and meaning, or a model."""


def message_ref(step: int) -> str:
    """Under which name the text of a step is kept."""
    return f"message-{step}"


def args_ref(tool_call_id: str) -> str:
    """Under which name the arguments of a call are kept."""
    return f"{tool_call_id}{_ARGS}"


def call_of_args(ref: str) -> str | None:
    """The call whose arguments a name of `args_ref` means; None for any other name."""
    return ref.removesuffix(_ARGS) if ref.endswith(_ARGS) else None


class TaskUsage(Contract):
    """What a task has used so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class ClientEvent(Envelope):
    """The base of everything on an event stream."""

    version: Literal[1] = 1


class MessageRouted(ClientEvent):
    """Which task a message went to, and why."""

    type: Literal["message_routed"] = "message_routed"
    message_id: str
    decision: Decision
    confidence: float
    reason: str
    stage: RoutingStage | None = None
    """None: written before 0.2."""
    candidates: list[str] = Field(default_factory=list)
    """The tasks that it could have gone to."""
    scores: dict[str, float] | None = None
    """How likely each of them is, 0 to 1, where they were weighed; what is missing to 1 are tasks that are less likely,
    and a new one."""
    metadata: dict[str, str] | None = None
    """The metadata of the message; absent: it has none."""


class ControlResult(ClientEvent):
    """A message that only said what to do with a task: it is done, and no task got the message."""

    type: Literal["control_result"] = "control_result"
    message_id: str
    action: ControlAction
    content: str
    """What came of it, in the message's language."""


class PastEffect(Contract):
    """A tool call whose effect may have happened: nothing takes it back."""

    tool_call_id: str
    tool: str
    effect: Effect


class MessageMoved(ClientEvent):
    """A person moved a message to another task, which answers it. ``task_id`` is the task that it was taken from."""

    type: Literal["message_moved"] = "message_moved"
    message_id: str
    from_task_id: str
    to_task_id: str
    emptied: bool = False
    """The first task had no other message: it is cancelled. One that was live still gets its ``task_end``."""
    effects: list[PastEffect] = Field(default_factory=list)
    """What the first task did for the message, as far as it was no mere reading."""
    later_steps: list[int] = Field(default_factory=list)
    """Steps of the first task whose answers came after the message and stay: they may rest on it."""


class TaskStart(ClientEvent):
    """A task began, or began again after its end."""

    type: Literal["task_start"] = "task_start"
    goal: str
    metadata: dict[str, str] | None = None
    """The metadata of the message with which it begins; absent: it has none."""


class Delta(ClientEvent):
    """A piece of an attempt's text. Written outside the transaction; void once ``attempt`` grows."""

    step: int
    attempt: int
    offset: int
    """Characters of this attempt's text before this piece."""
    content: str


class Thinking(Delta):
    """A piece of what the model thinks aloud."""

    type: Literal["thinking"] = "thinking"


class Content(Delta):
    """A piece of the answer."""

    type: Literal["content"] = "content"


class MessageEvent(ClientEvent):
    """The whole text of a step, durable, after its deltas."""

    type: Literal["message"] = "message"
    step: int
    attempt: int
    content: str
    finish_reason: str | None = None
    """In OpenAI's words why the model stopped, or `INTERRUPTED`. Absent: written before 0.2."""
    model: str | None = None
    """What the model that answered calls itself."""
    model_id: str | None = None
    """Its id in the registry; absent for the environment's."""
    ref: str | None = None
    """Where the whole text is kept when ``content`` was cut."""


class ToolCallEvent(ClientEvent):
    """The model asked for a tool."""

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str
    tool: str
    args: dict[str, Any] | str
    """The raw text when it does not parse, or when it was cut."""
    ref: str | None = None
    """Where the whole arguments are kept when ``args`` was cut."""


class ToolProgress(ClientEvent):
    """A running tool says how far it is. Not durable."""

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
    """Where the whole result is kept when ``result`` was cut."""

    @classmethod
    def of(
        cls, envelope: Mapping[str, Any], call: str, tool: str, outcome: ToolOutcome, ref: str | None = None
    ) -> "ToolResultEvent":
        """The event of this outcome. ``envelope``: its other fields; ``ref``: as of the event."""
        return cls.from_fields({**envelope, "tool_call_id": call, "tool": tool, **outcome.told, "ref": ref})


class ApprovalRequest(ClientEvent):
    """A person must allow this call."""

    type: Literal["approval_request"] = "approval_request"
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    effect: Effect


class TaskStatusEvent(ClientEvent):
    """A task's status changed without its ending."""

    type: Literal["task_status"] = "task_status"
    status: Literal["pending", "active", "waiting", "stale"]
    reason: str = ""


class TaskEnd(ClientEvent):
    """A task ended; each ``task_start`` has one."""

    type: Literal["task_end"] = "task_end"
    status: EndStatus
    reason: str = ""
    detail: str | None = None
    """The reason in words, where it needs some: what failed, and what to do about it."""
    queues: bool | None = None
    """True: the instruction queues messages. This ends the turn of the message that ``correlation_id`` names, and no
    other: what else was said to the task has turns of its own."""
    finish_reason: str | None = None
    """Why the model stopped, as the last `message` says it: of a completed task `length` and `content_filter` mean that
    its answer is not whole. Absent where no answer ended it."""
    steps: int = 0
    usage: TaskUsage = TaskUsage()


class Snapshot(ClientEvent):
    """What a client needs to go on when its cursor is gone."""

    type: Literal["snapshot"] = "snapshot"
    tasks: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class ErrorEvent(ClientEvent):
    """Something was refused or went wrong, and what to do about it."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str
    message_id: str | None = None
    retry_after: float | None = None
    """Seconds."""


SessionEvent = Annotated[
    MessageRouted
    | ControlResult
    | MessageMoved
    | TaskStart
    | Thinking
    | Content
    | MessageEvent
    | ToolCallEvent
    | ToolProgress
    | ToolResultEvent
    | ApprovalRequest
    | TaskStatusEvent
    | TaskEnd
    | Snapshot
    | ErrorEvent,
    Field(discriminator="type"),
]
event_adapter: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent)

EPHEMERAL = frozenset({"thinking", "content", "tool_progress"})
"""Written outside the transaction; every other event is durable and written exactly once."""
