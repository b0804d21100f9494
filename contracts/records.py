"""The data that is kept of tasks: transcripts, steps with their manifests, records, and anchors into them."""

from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from pentad.contracts.dates import LocalDate
from pentad.contracts.envelope import Budget, Contract
from pentad.contracts.events import TaskStatus, TaskUsage
from pentad.contracts.hooks import StepHooks
from pentad.contracts.ids import Identifier, Timestamp
from pentad.contracts.recalls import RecallOutcome, RecallWalk
from pentad.contracts.runs import RunCall


class FunctionCall(Contract):
    """The function of a tool call, in OpenAI chat form."""

    name: str
    arguments: str


class ToolCall(Contract):
    """A tool call in the form that the model gets."""

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
    """The data that is kept with a message and not sent to the model."""

    at: str
    step: int | None = None
    attempt: int | None = None
    model: str | None = None
    model_id: str | None = None
    """Id in the registry of the model that answered; absent for the model that the environment names."""
    finish_reason: Literal["interrupted"] | None = None
    """Finish reason of an answer that a new message has cut short; absent for all others."""
    message_id: str | None = None
    user_id: str | None = None
    """User who sent the message, if one is named: the memories of this turn belong to them."""
    memory_session: str | None = None
    """Session that owns the memories of this turn: set on a message without a user, unless the whole tenant shares
    them."""
    origin: Literal["repair", "context", "recalled", "call", "node"] | None = None
    """Origin of a message that nobody sent to this task: ``repair`` asks again for an answer that did not fit,
    ``context`` was said in the session before the task began, ``recalled`` quotes memories, ``call`` belongs to a
    tool call outside a conversation, ``node`` is what the run of a graph asks its models. No such message is remembered
    again."""
    task_id: str | None = None
    """Id of the task to which a message of origin ``context`` was sent."""
    deadline: Timestamp | None = None
    """Deadline of a user's message. When the message is moved to another task, its deadline, budget, metadata and trace
    context go with it."""
    budget: Budget | None = None
    metadata: dict[str, str] | None = None
    traceparent: str | None = None
    failed: bool | None = None
    """Whether the result of a tool call says why the call failed; absent for all others, and for results that earlier
    versions have kept."""
    duration_ms: int | None = None
    """Milliseconds that the tool call of a result took; absent where that is not known."""
    client_calls: list[str] | None = None
    """Ids of the tool calls of an answer that the client makes itself; absent where there are none."""
    forked: Literal[True] | None = None
    """Whether the task has this entry from the task that it is a fork of. It is not remembered again."""


class Exclusion(Contract):
    """An entry of a transcript that says that a person moved a message to another task.

    Prompts that contain this entry leave out the entry itself and the entries at ``positions``: the message and its
    direct answer, tool calls together with their results. Prompts of earlier steps keep them. Digests contain the
    exclusion like any other entry.
    """

    role: Literal["exclusion"] = "exclusion"
    positions: list[int]
    to: str
    """Target that the person chose: a task's id, or ``new``."""
    to_task_id: str


class Compaction(Contract):
    """An entry of a transcript that says that later prompts have a shorter text instead of earlier messages.

    Prompts that contain this entry have one message of a user with ``content`` where the first of the entries at
    ``positions`` stood, and leave those out. Prompts of earlier steps keep them, and the entries themselves stay.
    """

    role: Literal["compaction"] = "compaction"
    positions: list[int]
    """Positions of messages and of earlier compactions, ascending: tool calls together with their results."""
    content: str
    """Summary of these messages, or a note that they are left out."""
    tokens_before: int
    """Tokens of the whole prompt with the messages, as they are counted."""
    tokens_after: int
    """Tokens of the whole prompt with ``content`` instead."""


NodeEntryKind = Literal["begin", "done", "decided", "retry", "started", "joined", "end", "failed"]


class NodeEntry(Contract):
    """An entry of the transcript of a task that runs a graph: it says how the run has gone on.

    All that is known of a run follows from its entries. Prompts leave them out, and the entries at ``positions``.

    ``begin``: the run begins at ``node``, or goes on there after a failure. ``done``: the node's own work is done, and
    conditions of its edges are still open. ``decided``: conditions were judged or checked. ``retry``: an attempt at the
    node has failed, and it is tried again. ``started``: a task was started for the node, or, if ``node`` is empty, for
    an agent that a model has called. ``joined``: that task has ended. ``end``: the run has left the node. ``failed``:
    the node has failed, and the run with it.
    """

    role: Literal["node"] = "node"
    kind: NodeEntryKind
    node: str
    at_ms: int
    """Time in milliseconds since the epoch."""
    next: str | None = None
    """Key of the node that follows an ``end``; None: the run has come to its end."""
    state: dict[str, Any] | None = None
    """Initial state at a ``begin``."""
    writes: list[tuple[str, Any]] = Field(default_factory=list)
    """Keys and values that were written to the state."""
    holds: dict[int, bool] = Field(default_factory=dict)
    """Outcomes of the conditions that were ``decided``, by the numbers of the node's edges."""
    error: str | None = None
    positions: list[int] = Field(default_factory=list)
    """Positions of the question to the model that has ``decided``, and of its answer."""
    call: str | None = None
    """Id of the call that a ``started`` or ``joined`` task answers."""
    child: str | None = None
    """Id of the task that was ``started`` or has ``joined``."""
    index: int = 0
    """Number of the branch or item that was ``started`` or ``joined``, from 0 on."""
    name: str | None = None
    """Key of the branch or of the item's node, or name of the graph, that was ``started``."""
    text: str | None = None
    """Text with which a node is ``done`` or a task has ``joined``; None for a task whose value it is."""
    value: Any = None
    """Value of a task that has ``joined``."""


class PromptImage(Contract):
    """An image that a model was sent, named by its digest: the bytes are a file of the session."""

    path: str
    media_type: str
    size: int
    digest: str
    """``sha256:`` and hexadecimal digits."""


class Manifest(Contract):
    """The exact parts of a step's prompt, so that the prompt can be rebuilt, replayed and compared.

    ``digest`` is chained: SHA-256 of the previous step's digest and the bytes of the messages that were added since.
    """

    messages: tuple[int, int]
    """Range of transcript positions, end exclusive, without the exclusions in it and the entries that they name."""
    instruction: str
    instruction_version: str | None = None
    """Version of the instruction, whose content is kept under ``instruction:VERSION``."""
    graph_version: str | None = None
    """Version of the graph that the task runs, whose content is kept under ``graph:VERSION``; absent: it runs none."""
    tools: str
    """Digest of the schemas of the offered tools."""
    model: str
    model_id: str | None = None
    """Id in the registry of the model that answered; absent for the model that the environment names."""
    memories: list[str] = Field(default_factory=list)
    """Anchors of the memories that were recalled for the step; their text is in the transcript, before the messages
    that they are about."""
    recall: RecallOutcome | None = None
    """Outcome of recalling memories for the step; absent where it begins neither its task nor a turn that has one of
    its own."""
    today: LocalDate | None = None
    """Day at the end of the system prompt; absent for steps of versions whose prompts had none."""
    now: str | None = None
    """Words for the minute at which the turn began, as the system prompt had them; absent: it does not name it."""
    variables: dict[str, str] | None = None
    """Values of metadata that the system prompt had, by their names; absent: it names none, or none was given."""
    state: dict[str, str] | None = None
    """Values of the state of a graph's run that the system prompt had, by their places; absent: it names none."""
    walk: RecallWalk | None = None
    """Walk through the graph while recalling; absent if there was none and no model was asked for one."""
    tool_choice: Literal["none"] | None = None
    """Whether the model could call the offered tools. ``none``: it could not call them any more; absent: it could."""
    told_schema: bool | None = None
    """Whether the model's server got the schema of the instruction's output; absent: it did not."""
    text_calls: bool | None = None
    """Whether the prompt had tools, calls and results as text; absent: it had them in the form of the protocol."""
    compacts: list[int] | None = None
    """Positions of the messages, and of earlier summaries, that the step has summarised: its prompt has these alone;
    absent: it has answered. See `Compaction`."""
    digest: str
    images: list[PromptImage] | None = None
    """Images that the model was sent in place of files that the messages name; absent: none."""
    hooks: StepHooks | None = None
    """Changes that hooks made in this step. ``digest`` is that of the prompt before; absent: they changed nothing."""


class StepRecord(Contract):
    """One committed step."""

    step: int
    attempt: int
    at: str
    finish_reason: str
    usage: TaskUsage
    manifest: Manifest
    duration_ms: int | None = None
    """Milliseconds from the question to the model until its whole answer, with the time that it waited for a server;
    absent for steps of earlier versions."""


class TaskStep(Contract):
    """One step of a task: its input, the answer of its model, the calls that the answer asked for, and the cost."""

    step: int
    attempt: int
    """Attempt that led to the answer, from 1 on."""
    at: str
    """Time at which the step was committed: RFC 3339."""
    duration_ms: int | None = None
    """Milliseconds from the question to the model until its whole answer; absent for steps of earlier versions."""
    model: str
    """Name of the model that answered, as its server gives it; ``redriven``: a person redrove tool calls, without a
    model."""
    model_id: str | None = None
    """Id in the registry of the model that answered; absent for the model that the environment names."""
    instruction: str
    instruction_version: str | None = None
    finish_reason: str
    usage: TaskUsage
    """Tokens and dollars of this step alone."""
    messages: list[dict[str, Any]]
    """Messages that this step added to the prompt of the step before, in the form of the transcript, and the answer,
    which is the last."""
    calls: list[RunCall]
    """Tool calls of the answer. ``result`` or ``error`` is what the model was told, or neither while the call is open;
    ``at`` is the time at which the model made the call."""
    manifest: Manifest


class StepPrompt(Contract):
    """The request of one step to its model, rebuilt from the data that is kept of its task."""

    task_id: Identifier
    step: int
    at: str
    """Time at which the step was committed: RFC 3339."""
    instruction: str
    instruction_version: str | None = None
    model: str
    """Name of the model that answered, as its server gives it; ``redriven``: a person redrove tool calls, without a
    model."""
    model_id: str | None = None
    """Id in the registry of the model that answered; absent for the model that the environment names."""
    messages: list[dict[str, Any]]
    """Messages in OpenAI chat form, the system message first. Ids of tool calls are Pentad's own: servers got them in
    the form that they accept."""
    tools: list[dict[str, Any]] | None = None
    """Tools that were offered, in OpenAI's form; absent: none."""
    tool_choice: Literal["none"] | None = None
    """Whether the model could call the offered tools. ``none``: it could not call them any more; absent: it could."""
    answer_schema: dict[str, Any] | None = None
    """JSON Schema for the answer that the model's server got; absent: none."""
    temperature: float | None = None
    """Temperature that the instruction asks for; absent: that of the model's entry, else of the environment."""
    max_tokens: int | None = None
    """Tokens that the instruction gives an answer; absent: as for ``temperature``."""
    digest: str
    """Digest of the request, as in the step's manifest."""
    proved: bool
    """Whether the rebuilt request has that digest, and is the one that was sent, byte for byte."""


class SegmentType(StrEnum):
    """The kind of text from which a segment of a transcript comes."""

    USER_MESSAGE = "user_message"
    REASONING = "reasoning"
    """Text of a model that also calls tools."""
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RESPONSE = "response"


AnchorNumber = Annotated[int, Field(ge=0, lt=2**31)]


class Anchor(Contract):
    """The exact place in a task from which a memory comes. Clients get it as an opaque string."""

    task_id: Identifier
    step: AnchorNumber
    """Step in which the words were said, else the last step before them; 0 for none."""
    position: AnchorNumber
    """Index of the message in the task's transcript."""
    part: AnchorNumber
    """Part of the message: 0 for its text, n for its n-th tool call."""
    segment: AnchorNumber
    """Number of the segment in the text of that part."""
    start: AnchorNumber
    end: AnchorNumber
    """End of the segment's characters in that text, exclusive."""
    type: SegmentType
    at: Annotated[str, Field(max_length=40)]
    """Time at which the words were said: RFC 3339; empty if unknown."""
    quote: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Digest of the characters from ``start`` to ``end``."""

    @property
    def short(self) -> str:
        """The place for people, ``TASK:MESSAGE.PART.SEGMENT``. It opens what stands there now."""
        return f"{self.task_id}:{self.position}.{self.part}.{self.segment}"


ShownStatus = TaskStatus | Literal["unreadable"]
"""Status of a task; ``unreadable``: the data that is kept of it cannot be read."""
SHOWN_STATUSES: tuple[str, ...] = (*get_args(TaskStatus), "unreadable")


class ForkOrigin(Contract):
    """The origin of a task that is a fork."""

    task_id: Identifier
    step: int
    """Last step of that task that the fork shares; 0: it begins before the first one."""
    session_id: str
    """Session of that task."""
    as_of: str
    """Time of that step, RFC 3339: tools of the fork find the memory as of then."""
    named_session_id: str
    """Session that system prompts of the fork name: that of the first task, of which forks were made since."""
    named_started_at: str
    """Time at which that task began, which system prompts of the fork name."""


class Task(Contract):
    """A task in the form that inspection shows."""

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
    """Ids of open tool calls, or the question that a person is asked."""
    archived_at: str | None = None
    reason: str | None = None
    """Reason of the task's end, as in its ``task_end``; None before the end."""
    detail: str | None = None
    """Explanation of the reason, if there is one."""
    completed_at: str | None = None
    """Time at which the task ended, however it ended; None before the end."""
    last_user_message_at: str | None = None
    """Time at which the last user message came to the task, also one that was moved away since."""
    waiting_for_tools: list[str] | None = None
    """Names of the tools of the open calls in ``waiting_for``, one for each; None where it names no calls."""
    parent_task_id: str | None = None
    """Task that has started this one; absent for a task that a message has begun."""
    node: str | None = None
    """Key of the node that the task's graph has come to; absent for a task that runs no graph, or has ended."""
    forked_from: ForkOrigin | None = None
    """Origin of a task that is a fork of another; absent for all others."""


class UnreadableTask(Task):
    """A task of which only the id and the age are known: its data is damaged, or of a newer version."""

    status: Literal["unreadable"] = "unreadable"  # type: ignore[assignment]
    problem: str


class TaskRecord(Contract):
    """The whole record of a finished task, as the archiver writes it."""

    version: Literal[1] = 1
    tenant_id: str
    task: Task
    messages: list[dict[str, Any]]
    """Transcript in OpenAI chat form, with ``step``, ``attempt``, ``at`` and ``model`` where they apply."""
    steps: list[StepRecord]
    materials: dict[str, Any] = Field(default_factory=dict)
    """Tool schemas and instructions, by the digests in the manifests. For knowledge that a person has added by hand:
    the node or edge, and the time at which it was last added."""
    results: dict[str, str] | None = None
    """Whole results of tools, by the ids of their calls, if the transcript has only parts of them; None: it has all."""
    extraction: dict[str, Any] | None = None
    """Knowledge that a model found in the task, kept before it is used, so that the model is asked once."""
