"""What is kept: messages of a transcript, steps with their context manifest, tasks, and anchors into them."""

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from pentad.contracts.dates import LocalDate
from pentad.contracts.envelope import Budget, Contract
from pentad.contracts.events import TaskStatus, TaskUsage
from pentad.contracts.ids import Identifier, Timestamp
from pentad.contracts.recalls import RecallOutcome, RecallWalk

"""``nothing``: no memory is about it. ``no_memory``: the tenant has none. ``off``: by a setting or the instruction.
``away``: the store or the embedding model. ``late``: no answer in time. ``busy``: as many as may be are under way.
``failed``: refused, or by a mistake of ours."""


class FunctionCall(Contract):
    """The function part of a tool call, in OpenAI chat form."""

    name: str
    arguments: str


class ToolCall(Contract):
    """A tool call as the model is shown it."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Contract):
    """A message in OpenAI chat form."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class TranscriptMeta(Contract):
    """What we know of a message beside what the model is sent."""

    at: str
    step: int | None = None
    attempt: int | None = None
    model: str | None = None
    model_id: str | None = None
    """Of the registry's model that answered; absent for the environment's."""
    finish_reason: Literal["interrupted"] | None = None
    """Set on an answer that a message has cut short."""
    message_id: str | None = None
    user_id: str | None = None
    """Who said it, where a user is named: what is remembered of this turn belongs to them."""
    memory_session: str | None = None
    """The session that alone owns what is remembered of this turn: set on a message without a user, unless the tenant
    shares it."""
    origin: Literal["repair", "context", "recalled"] | None = None
    """Set on what nobody said to this task: ``repair`` asks for an answer again that did not fit, ``context`` was said
    in the session before the task began, ``recalled`` quotes long-term memory. None of it is remembered again."""
    task_id: str | None = None
    """Of what was said in the session before: in which task."""
    deadline: Timestamp | None = None
    """The deadline of a user's message. When the message is moved to another task, its deadline, budget, metadata and
    trace context go with it."""
    budget: Budget | None = None
    metadata: dict[str, str] | None = None
    traceparent: str | None = None


class Exclusion(Contract):
    """An entry of a transcript that is no message: a person moved one away.

    Prompts that contain this entry leave out the entry itself and what stands at ``positions``: the message and its
    direct answer, tool calls together with their results. Prompts of steps before it have them. In digests it counts
    like any other entry.
    """

    role: Literal["exclusion"] = "exclusion"
    positions: list[int]
    to: str
    """Where a person wanted the message: a task's id, or ``new``."""
    to_task_id: str


class Manifest(Contract):
    """What exactly a step's prompt was made of, so that it can be rebuilt, replayed and compared.

    ``digest`` is chained: SHA-256 over the digest of the step before and the bytes of the messages added since.
    """

    messages: tuple[int, int]
    """Range of transcript positions, end exclusive. What an ``Exclusion`` in it names was left out, and so was that."""
    instruction: str
    instruction_version: str | None = None
    """Which version of it; its content is kept under ``instruction:VERSION``."""
    tools: str
    """Digest of the tool schemas offered."""
    model: str
    model_id: str | None = None
    """Of the registry's model that answered; absent for the environment's."""
    memories: list[str] = Field(default_factory=list)
    """Anchors of what was recalled for this step, which is the task's first: the transcript begins with its text."""
    recall: RecallOutcome | None = None
    """What came of recalling, of a task's first step; absent of others."""
    today: LocalDate | None = None
    """The day that the system prompt ended with; absent of steps before prompts had one."""
    walk: RecallWalk | None = None
    """How the graph was walked for it, if it was, or a model was asked how."""
    tool_choice: Literal["none"] | None = None
    """``none``: tools were offered that the model could not call any more; absent: it could call those offered."""
    told_schema: bool | None = None
    """True: the model's server was told the schema of the instruction's output; absent: it was not."""
    digest: str


class StepRecord(Contract):
    """One committed step."""

    step: int
    attempt: int
    at: str
    finish_reason: str
    usage: TaskUsage
    manifest: Manifest


class StepPrompt(Contract):
    """What one step asked its model, rebuilt from what is kept of its task."""

    task_id: Identifier
    step: int
    at: str
    """When the step was committed: RFC 3339."""
    instruction: str
    instruction_version: str | None = None
    model: str
    """The model that answered, as its server names it; ``redriven``: nobody was asked, a person redrove tool calls."""
    model_id: str | None = None
    """Of the registry's model that answered; absent for the environment's."""
    messages: list[dict[str, Any]]
    """The messages in OpenAI chat form, the system message first. Ids of tool calls are Pentad's own: each kind of
    server was sent them in the form that it takes."""
    tools: list[dict[str, Any]] | None = None
    """The tools that were offered, in OpenAI's form; absent: none."""
    tool_choice: Literal["none"] | None = None
    """``none``: tools were offered that the model could not call any more."""
    answer_schema: dict[str, Any] | None = None
    """The JSON Schema that the model's server was told for the answer; absent: none."""
    digest: str
    """The digest of the request, as the step's manifest has it."""
    proved: bool
    """Whether the rebuilt request has that digest: then it is the one that was sent, byte for byte."""


class SegmentType(StrEnum):
    """What a segment of a transcript was when it was said."""

    USER_MESSAGE = "user_message"
    REASONING = "reasoning"
    """What a model says beside the tools that it calls."""
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RESPONSE = "response"


AnchorNumber = Annotated[int, Field(ge=0, lt=2**31)]


class Anchor(Contract):
    """Points at the exact place a memory came from. Clients get it as an opaque string."""

    task_id: Identifier
    step: AnchorNumber
    """Which iteration of the task: the step that said it, else the last step before it, 0 for none."""
    position: AnchorNumber
    """Index in the task's transcript."""
    part: AnchorNumber
    """Of the message there: 0 for what it says, n for its n-th tool call."""
    segment: AnchorNumber
    """Number of the segment in that text."""
    start: AnchorNumber
    end: AnchorNumber
    """The range of its characters in that text, end exclusive."""
    type: SegmentType
    at: Annotated[str, Field(max_length=40)]
    """When it was said: RFC 3339; empty where that is not known."""
    quote: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Digest of the characters in the range."""


ShownStatus = TaskStatus | Literal["unreadable"]
"""A task's status, or that what is kept of it cannot be read."""
SHOWN_STATUSES: tuple[str, ...] = (*get_args(TaskStatus), "unreadable")


class Task(Contract):
    """A task as inspection shows it."""

    task_id: str
    session_id: str
    user_id: str | None = None
    status: TaskStatus
    goal: str
    instruction: str
    created_at: str
    updated_at: str
    steps: int
    usage: TaskUsage
    waiting_for: list[str] = Field(default_factory=list)
    """Open tool calls, or what a person is asked for."""
    archived_at: str | None = None
    reason: str | None = None
    """Why it has ended, as its ``task_end`` says it; None while it has not."""
    detail: str | None = None
    """The same in words, where there are any."""


class UnreadableTask(Task):
    """A task of which nothing but its id and age is known: what is kept of it is damaged, or of a newer version."""

    status: Literal["unreadable"] = "unreadable"  # type: ignore[assignment]
    problem: str


class TaskRecord(Contract):
    """A finished task, whole, as the archiver writes it."""

    version: Literal[1] = 1
    tenant_id: str
    task: Task
    messages: list[dict[str, Any]]
    """The transcript: OpenAI chat form plus ``step attempt at model`` where they apply."""
    steps: list[StepRecord]
    materials: dict[str, Any] = Field(default_factory=dict)
    """What the manifests name by digest: tool schemas, instructions. Of what a person has added to the memory by hand:
    the node or edge, and when it was added last."""
    results: dict[str, str] | None = None
    """Results of tools of which the transcript has a part, whole, by the ids of their calls; None: it has all."""
    extraction: dict[str, Any] | None = None
    """What a model has said is known from it, kept before it is used: it is asked once."""
