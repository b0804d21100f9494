"""The commands on work streams: a user's message, a tool call, an embedding. One consumer group reads each."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import to_json

from pentad.contracts.client_tools import MAX_CLIENT_TOOLS, ClientTool, check_client_tools
from pentad.contracts.envelope import Budget, Contract, Envelope, due_of
from pentad.contracts.graph_nodes import MAX_FIRST_STATE
from pentad.contracts.hooks import HookCommand, HookReply
from pentad.contracts.ids import DEFAULT_TENANT, ExternalId, Identifier, Timestamp
from pentad.contracts.instructions import MAX_SCHEMA
from pentad.contracts.plain_json import MOST_LEVELS, is_deep
from pentad.contracts.receivers import ReceiverSecret, ReceiverUrl
from pentad.contracts.suspensions import Resumption
from pentad.contracts.tools import Effect, OnUnknown

MAX_CONTENT = 65_536
"""Characters that one user message may have."""
NEW_TASK = "new"
"""The word that asks for a new task where a task's id is expected. No task has it as its id."""
MAX_FILE_PATH = 1024
"""Characters that the path of a file in a message may have."""
MAX_HISTORY, MAX_HISTORY_CHARS = 200, 262_144
"""Earlier messages that a message may bring along, and characters that all of them together may have."""
MAX_METADATA = 16_384
"""Characters that a message's metadata may have, names and values together."""
MAX_FILES = 16
"""Files that a message may name, and all messages of its history together."""
MetadataText = Annotated[str, StringConstraints(max_length=4096)]


def _check_paths(paths: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for path in paths or ():
        if not path.isprintable() or any(name in ("", ".", "..") for name in path.split("/")):
            raise ValueError("paths are relative, of names separated by /: none is empty, `.` or `..`")
    return paths


FilePaths = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=MAX_FILE_PATH)], ...],
    Field(max_length=MAX_FILES),
    AfterValidator(_check_paths),
]
"""Paths of files of a session."""


class EarlierMessage(Contract):
    """A message of a conversation that was held elsewhere."""

    role: Literal["user", "assistant"]
    content: str = Field(min_length=1, max_length=MAX_HISTORY_CHARS)
    files: FilePaths | None = None
    """Paths of files of the session that a user's message was about. A model is told of them, and sent images among
    them, as those of the message that brings it along."""

    @model_validator(mode="after")
    def _is_a_users_with_files(self) -> Self:
        if self.files and self.role != "user":
            raise ValueError("files: only messages of the user have files")
        return self


class InboundMessage(Contract):
    """A message that a producer appends to ``pentad:inbound``: only ``content`` is required."""

    version: Literal[1] = 1
    content: str = Field(min_length=1, max_length=MAX_CONTENT)
    session_id: ExternalId | None = None
    message_id: ExternalId | None = None
    """The producer's idempotency key: accepted once in a session for 24 hours."""
    task_id: Identifier | None = None
    """The task that gets the message, without routing; ``new``: a new task of its own."""
    user_id: ExternalId | None = None
    tenant_id: Identifier = DEFAULT_TENANT
    instruction: Identifier | None = None
    """The instruction to run; absent: the one that the task runs already, and ``executor`` for a new task."""
    metadata: dict[MetadataText, MetadataText] = Field(default_factory=dict, max_length=64)
    """Texts of the producer's own that Pentad carries along: they are in ``message_routed`` and ``task_start``, given
    to tools, and kept in the task's record."""
    deadline: Timestamp | None = None
    budget: Budget | None = None
    output_schema: dict[str, Any] | None = None
    """JSON schema of the answer, in place of that of the instruction. The message begins a task of its own, which
    answers with one JSON value that fits."""
    traceparent: str | None = Field(default=None, max_length=256)
    state: dict[str, Any] | None = None
    """Initial state of a graph's run; only a message whose task runs a graph has one."""
    decides: bool | None = None
    """Set to false where the sender may not decide about tool calls: then no yes or no in the message does."""
    files: FilePaths | None = None
    """Paths of files of the session that the message is about: the model is told of them, and sent images among them if
    it sees them."""

    history: Annotated[tuple[EarlierMessage, ...] | None, Field(max_length=MAX_HISTORY)] = None
    """Conversation that was held elsewhere before the message: a new task begins with it, any other ignores it."""
    callback_url: ReceiverUrl | None = None
    """Address to which the events of the message's turn are sent, as those of a webhook are."""
    callback_secret: Annotated[ReceiverSecret | None, Field(repr=False)] = None
    """Secret that signs them; absent: they are not signed."""

    tools: Annotated[tuple[ClientTool, ...] | None, Field(max_length=MAX_CLIENT_TOOLS)] = None
    """Tools that the sender has itself. The model may call them until the task's next message, and the task waits for
    the sender to answer these calls."""

    @field_validator("tools")
    @classmethod
    def _fit_together(cls, tools: tuple[ClientTool, ...] | None) -> tuple[ClientTool, ...] | None:
        check_client_tools(tools or ())
        return tools

    @field_validator("state", "output_schema", "tools", mode="before")
    @classmethod
    def _is_flat(cls, value: Any) -> Any:
        if is_deep(value):
            raise ValueError(f"it is nested in more than {MOST_LEVELS} levels: make it flatter")
        return value

    @field_validator("history")
    @classmethod
    def _is_bounded(cls, history: tuple[EarlierMessage, ...] | None) -> tuple[EarlierMessage, ...] | None:
        if sum(len(each.content) for each in history or ()) > MAX_HISTORY_CHARS:
            raise ValueError(f"its messages have at most {MAX_HISTORY_CHARS:,} characters in all: leave out the oldest")
        if sum(len(each.files or ()) for each in history or ()) > MAX_FILES:
            raise ValueError(f"its messages name at most {MAX_FILES} files in all: leave out the oldest")
        return history

    @field_validator("state")
    @classmethod
    def _is_small(cls, state: dict[str, Any] | None) -> dict[str, Any] | None:
        if state is not None and len(to_json(state)) > MAX_FIRST_STATE:
            raise ValueError(f"it has more than {MAX_FIRST_STATE:,} bytes as JSON: send a reference")
        return state

    @field_validator("metadata")
    @classmethod
    def _is_short(cls, metadata: dict[str, str]) -> dict[str, str]:
        if sum(len(name) + len(value) for name, value in metadata.items()) > MAX_METADATA:
            raise ValueError(f"names and values have at most {MAX_METADATA:,} characters in all: send a reference")
        return metadata

    @model_validator(mode="after")
    def _has_a_task_for_its_output(self) -> Self:
        if self.output_schema is None:
            return self
        if self.task_id != NEW_TASK:
            raise ValueError(f'output_schema needs a task of its own: give it with task_id "{NEW_TASK}"')
        if len(to_json(self.output_schema)) > MAX_SCHEMA:
            raise ValueError(f"output_schema has more than {MAX_SCHEMA} bytes")
        return self

    @model_validator(mode="after")
    def _has_a_callback_for_its_secret(self) -> Self:
        if self.callback_secret is not None and self.callback_url is None:
            raise ValueError("callback_secret signs what is sent to a callback_url: give that, too")
        return self

    @property
    def due(self) -> int:
        """The deadline in milliseconds since the epoch; 0 for none."""
        return due_of(self.deadline)


class WakeUp(Contract):
    """A notice that an actor has mail. It carries no work: the mailbox does, and each piece of mail says its cause."""

    type: Literal["wake_up"] = "wake_up"
    version: Literal[1] = 1
    actor: str
    """``TENANT/SESSION`` on the stream of sessions, with the session encoded as in its keys; ``TENANT/TASK``
    elsewhere."""


class ToolCallCommand(Envelope):
    """The command to run a tool. ``tool_call_id`` is the idempotency key of every attempt."""

    type: Literal["tool_call_command"] = "tool_call_command"
    version: Literal[1] = 1
    tool_call_id: str
    step: int
    tool: str
    args: dict[str, Any]
    effect: Effect
    timeout: float
    """Seconds from the start of the call."""
    user_id: str | None = None
    metadata: dict[str, str] | None = None
    """Metadata of the user's message whose turn the call belongs to; absent: it has none."""
    as_of: Timestamp | None = None
    """Time as of which the task sees the memory, because it is a fork; absent: it sees the memory as it is now."""
    asks_if: bool | None = None
    """Whether the tool decides, before the call is made, if a person must allow it; absent: it does not."""
    on_unknown: OnUnknown | None = None
    """Who is told when the outcome of the call is unknown; absent: the model."""
    resumed: Resumption | None = None
    """Answer with which the call goes on, which was suspended; absent: it begins."""
    instruction: str | None = None
    """Instruction of the node that asks for the call, where the task runs a graph; absent: the task's own."""

    @property
    def round(self) -> int:
        """How often the call was suspended."""
        return 0 if self.resumed is None else self.resumed.round


class EmbedCommand(Envelope):
    """The command to embed texts; the answer goes to the caller's reply stream."""

    type: Literal["embed_command"] = "embed_command"
    version: Literal[1] = 1
    texts: list[str] = Field(min_length=1, max_length=256)
    reply_to: str
    """Key of the stream that takes the ``EmbedReply``; it has a TTL."""
    cached_for: Annotated[str, StringConstraints(max_length=160)] | None = None
    """The user, session or task for which the vectors of these texts are cached; None: the session that is named.
    Requests of others are not answered from this cache, so that the time of an answer does not show what somebody else
    has said."""


class EmbedReply(Envelope):
    """Vectors in the order of the texts, or the reason why there are none."""

    type: Literal["embed_reply"] = "embed_reply"
    version: Literal[1] = 1
    model: str = ""
    vectors: list[list[float]] = Field(default_factory=list)
    error: str | None = None
    refuses_all: bool | None = None
    """Whether the model refuses every request until a person mends it. These texts are not at fault: ask again
    later."""


class MemoryRequest(Contract):
    """A call to the memory that an archiver has opened; the answer goes to the caller's reply stream."""

    type: Literal["memory_request"] = "memory_request"
    version: Literal[1] = 1
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    at: Timestamp
    """Time of the request: RFC 3339."""
    wait_ms: Annotated[int, Field(ge=0, le=60_000)] = 2_000
    """Milliseconds for which the caller waits; nobody reads an answer that comes later."""
    call: Annotated[str, StringConstraints(max_length=32)]
    """The method of the port: ``search`` and ``upsert`` for vectors, ``graph.links`` for the graph. The selections and
    owners among the arguments name the tenant."""
    args: Any
    """Array of the method's arguments."""
    reply_to: Annotated[str, StringConstraints(max_length=128)]
    """Key of the stream that takes the ``MemoryReply``; it has a TTL."""


class MemoryReply(Contract):
    """The result of a call to the memory, or the reason why it failed."""

    type: Literal["memory_reply"] = "memory_reply"
    version: Literal[1] = 1
    request_id: str
    result: Any = None
    error: str | None = None
    refused: bool = False
    """Whether the same call will always fail; if not, it may be tried again."""


class ModelCallCommand(Contract):
    """The command to ask a chat model once, outside a conversation; the answer goes to the caller's reply stream.

    It is not durable: a caller that goes away ends the call, and a lost task-runner is told as a failure.
    """

    type: Literal["model_call_command"] = "model_call_command"
    version: Literal[1] = 1
    request_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
    at: Timestamp
    """Time of the request: RFC 3339."""
    wait_ms: Annotated[int, Field(ge=1, le=600_000)]
    """Milliseconds for which the caller waits; nobody reads an answer that comes later."""
    tenant_id: Identifier
    model: Identifier | None = None
    """Id of the model; absent: the default model."""
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=1_000)
    """Messages in OpenAI chat form, the system message first."""
    tools: list[dict[str, Any]] | None = Field(default=None, max_length=128)
    """Tools in OpenAI form, which the model may ask for; nobody runs them."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    stream: bool = False
    """Whether the caller wants the text as it comes."""
    reply_to: Annotated[str, StringConstraints(max_length=128)]
    """Key of the stream that takes the ``ModelCallReply``; it has a TTL."""


class ModelCallUsage(Contract):
    """Cost of one model call."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    cached_tokens: int = 0
    """Input tokens that the server had in its cache; absent: it has told of none."""

    @model_serializer(mode="wrap")
    def _without_none_cached(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: count for name, count in serialize(self).items() if count or name != "cached_tokens"}


class ModelCompletion(Contract):
    """The whole answer of a chat model."""

    model: str
    """Name of the model, as its server says it."""
    model_id: str | None = None
    """Id in the registry of the model that answered; absent for the model that the environment names."""
    content: str
    thinking: str = ""
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    """Tool calls that the model asks for, in OpenAI form; their arguments are as the model wrote them."""
    finish_reason: str
    usage: ModelCallUsage = ModelCallUsage()


class ModelCallReply(Contract):
    """A piece of a model's answer, or its last reply: the whole answer, or the reason why there is none."""

    type: Literal["model_call_reply"] = "model_call_reply"
    version: Literal[1] = 1
    request_id: str
    content: str = ""
    """Text of the answer that has come since the reply before."""
    thinking: str = ""
    completion: ModelCompletion | None = None
    error: str | None = None
    failure: Literal["refused", "misconfigured", "unavailable", "cut_off"] | None = None
    """Kind of the failure. ``refused``: this request is never answered. ``unavailable``: another time it may be."""
    retry_after: float | None = None
    """Seconds after which a model that is ``unavailable`` may be asked again."""

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.completion is not None or self.error is not None


class EraseCommand(Contract):
    """The command to erase all data of a task, a session or a user, up to the time that a mark beside its keys says."""

    type: Literal["erase_command"] = "erase_command"
    version: Literal[1] = 1
    kind: Literal["task", "session", "user"]
    tenant_id: Identifier
    name: ExternalId
    """Id of the task, session or user to erase."""


Command = Annotated[
    WakeUp
    | ToolCallCommand
    | EmbedCommand
    | EmbedReply
    | MemoryRequest
    | MemoryReply
    | ModelCallCommand
    | ModelCallReply
    | HookCommand
    | HookReply
    | EraseCommand,
    Field(discriminator="type"),
]
command_adapter: TypeAdapter[
    WakeUp
    | ToolCallCommand
    | EmbedCommand
    | EmbedReply
    | MemoryRequest
    | MemoryReply
    | ModelCallCommand
    | ModelCallReply
    | HookCommand
    | HookReply
    | EraseCommand
] = TypeAdapter(Command)
