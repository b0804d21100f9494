"""What is asked for: the user's message, a tool call, an embedding. One reader group each."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter, field_validator

from pentad.contracts.envelope import Budget, Contract, Envelope, due_of
from pentad.contracts.ids import DEFAULT_TENANT, ExternalId, Identifier, Timestamp
from pentad.contracts.tools import Effect

MAX_CONTENT = 65_536
"""Characters of one user message."""
NEW_TASK = "new"
"""In place of a task's id: a new task. None of ours is called so."""
MAX_METADATA = 16_384
"""Characters of a message's metadata, names and values together."""
MetadataText = Annotated[str, StringConstraints(max_length=4096)]


class InboundMessage(Contract):
    """What a producer appends to ``pentad:inbound``: only ``content`` is required."""

    version: Literal[1] = 1
    content: str = Field(min_length=1, max_length=MAX_CONTENT)
    session_id: ExternalId | None = None
    message_id: ExternalId | None = None
    """The producer's idempotency key: accepted once in a session for 24 hours."""
    task_id: Identifier | None = None
    """Straight to this task; ``new``: to one of its own."""
    user_id: ExternalId | None = None
    tenant_id: Identifier = DEFAULT_TENANT
    instruction: Identifier | None = None
    """What to run; absent: what its task runs, and ``executor`` for a new one."""
    metadata: dict[MetadataText, MetadataText] = Field(default_factory=dict, max_length=64)
    """Texts of the producer's own, carried along: told with ``message_routed`` and ``task_start``, given to tools, and
    kept in the record."""
    deadline: Timestamp | None = None
    budget: Budget | None = None
    traceparent: str | None = Field(default=None, max_length=256)

    @field_validator("metadata")
    @classmethod
    def _is_short(cls, metadata: dict[str, str]) -> dict[str, str]:
        if sum(len(name) + len(value) for name, value in metadata.items()) > MAX_METADATA:
            raise ValueError(f"names and values have at most {MAX_METADATA:,} characters in all: send a reference")
        return metadata

    @property
    def due(self) -> int:
        """The deadline as it is counted inside: ms since the epoch, 0 for none."""
        return due_of(self.deadline)


class WakeUp(Contract):
    """ "This actor has mail." Carries no work: the mailbox does, and the mail says why it exists."""

    type: Literal["wake_up"] = "wake_up"
    version: Literal[1] = 1
    actor: str
    """``TENANT/SESSION`` on the sessions' stream, the session as its keys name it; ``TENANT/TASK`` on the others."""


class ToolCallCommand(Envelope):
    """Run a tool. ``tool_call_id`` is the idempotency key of every attempt."""

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
    """Of the user's message whose turn this belongs to; absent: it has none."""


class EmbedCommand(Envelope):
    """Embed these texts; the answer goes to the caller's reply stream."""

    type: Literal["embed_command"] = "embed_command"
    version: Literal[1] = 1
    texts: list[str] = Field(min_length=1, max_length=256)
    reply_to: str
    """Key of the stream that takes the ``EmbedReply``; it has a TTL."""
    cached_for: Annotated[str, StringConstraints(max_length=160)] | None = None
    """Who shares the cached vectors of these texts: a user, a session, a task; None: the session that is named. Nobody
    else's request is answered sooner because of them, so that no answer's time tells what others have said."""


class EmbedReply(Envelope):
    """Vectors in the order of the texts, or the reason why there are none."""

    type: Literal["embed_reply"] = "embed_reply"
    version: Literal[1] = 1
    model: str = ""
    vectors: list[list[float]] = Field(default_factory=list)
    error: str | None = None
    refuses_all: bool | None = None
    """These texts are not at fault: the model refuses every request until somebody mends it, so wait and ask again."""


class MemoryRequest(Contract):
    """A call of the memory that an archiver has open; the answer goes to the caller's reply stream."""

    type: Literal["memory_request"] = "memory_request"
    version: Literal[1] = 1
    request_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    at: Timestamp
    """When it was asked."""
    wait_ms: Annotated[int, Field(ge=0, le=60_000)] = 2_000
    """How long whoever asks waits: an answer after that reaches nobody."""
    call: Annotated[str, StringConstraints(max_length=32)]
    """The method of the port: ``search``, ``upsert`` of the vectors, ``graph.links`` of the graph. Its selections and
    owners name the tenant."""
    args: Any
    """What the method is given, as an array."""
    reply_to: Annotated[str, StringConstraints(max_length=128)]
    """Key of the stream that takes the ``MemoryReply``; it has a TTL."""


class MemoryReply(Contract):
    """What the call has given back, or the reason why it was not done."""

    type: Literal["memory_reply"] = "memory_reply"
    version: Literal[1] = 1
    request_id: str
    result: Any = None
    error: str | None = None
    refused: bool = False
    """The same call can never be done; else it may be tried again."""


class EraseCommand(Contract):
    """Erase all that is known of a task, a session or an end user. A mark beside its keys says up to when."""

    type: Literal["erase_command"] = "erase_command"
    version: Literal[1] = 1
    kind: Literal["task", "session", "user"]
    tenant_id: Identifier
    name: ExternalId
    """Of what is to be erased."""


Command = Annotated[
    WakeUp | ToolCallCommand | EmbedCommand | EmbedReply | MemoryRequest | MemoryReply | EraseCommand,
    Field(discriminator="type"),
]
command_adapter: TypeAdapter[
    WakeUp | ToolCallCommand | EmbedCommand | EmbedReply | MemoryRequest | MemoryReply | EraseCommand
] = TypeAdapter(Command)
