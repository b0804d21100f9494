"""What a chat model is to the rest of Pentad: one streamed answer per call, and three ways to fail.

The failures answer the only question a caller has: never again (`ModelRefused`), later and not counted
(`ModelUnavailable`), or again and counted (`ModelCutOff`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from pentad.shared.immutable import immutable
from pentad.shared.models.refusal import ServerRefusal

DeltaSink = Callable[[Literal["content", "thinking"], str], None]
"""Takes each piece of text as it arrives. Called on the event loop: it must be cheap, and must not block."""


@immutable
class ChatRequest:
    """One model call. `messages` are ready JSON objects in OpenAI chat form, the system message first.

    `tools` is a ready JSON array in OpenAI form, or None. `timeout_s` bounds the whole call, retries included.
    `model` overrides the client's own model id. `begin_s`: another model stands ready, so the answer must begin within
    this many seconds, and a server that cannot answer is not asked twice. `cut` is how many answers to it were cut off
    before. `caller` says whose call it is, for its place among those who wait. Ready bytes matter: with 800 messages
    building a request from objects costs the SDK 130 ms of CPU, joining bytes about 1.
    """

    messages: Sequence[bytes]
    tools: bytes | None
    timeout_s: float
    model: str | None = None
    may_call: bool = True
    """False: the tools are there for what the messages say of them; the model is to answer without calling any."""
    begin_s: float | None = None
    cut: int = 0
    caller: str = ""
    answer_schema: bytes | None = None
    """A JSON object, ready: the schema that the answer is to fit, for servers that hold their models to one."""
    on_cut: Callable[[ModelAnswer], None] | None = None
    """Takes what was said so far when the call is cancelled in the middle of its answer."""


@immutable
class ToolCallDraft:
    """A tool call as the model wrote it: `arguments` is its raw text, which need not be JSON."""

    name: str
    arguments: str


@immutable
class Usage:
    """Tokens of one call as the server counted them, and their price in US dollars."""

    input_tokens: int
    output_tokens: int
    usd: float = 0.0
    cached_tokens: int = 0
    """Of the input tokens: those that the server had in its cache."""
    estimated: bool = False
    """The server did not count: the tokens follow from the length of the texts."""


@immutable
class ModelAnswer:
    """A complete answer. `model` is the id the server says it used, `model_id` the registry's id of who answered:
    '' for the environment's model. `thoughts`: what the model must be sent back with its tool calls, see `kept`.
    `too_many_calls`: there were more, which were not read.

    `whole_calls`: so many of the first calls were followed by another, so they are whole even when the answer was cut;
    None: all but the last. `finish_said`: the server has said why the answer ended; else `finish_reason` is assumed.
    """

    text: str
    thinking: str
    tool_calls: tuple[ToolCallDraft, ...]
    finish_reason: str
    usage: Usage
    model: str
    model_id: str = ""
    thoughts: Mapping[str, Any] | None = field(default=None, hash=False)
    too_many_calls: bool = False
    whole_calls: int | None = None
    finish_said: bool = True


class ModelFailed(Exception):  # noqa: N818 - reads as what happened
    """A model call failed. The message says what to do about it and never holds the API key."""

    refusal: ServerRefusal | None = None
    """What the server says of the request, where another form of it may be answered."""
    retry_after: float | None = None
    """Seconds that the server asked for, None when it did not say."""


class ModelRefused(ModelFailed):
    """The server understood and said no (4xx other than 408, 409 and 429): the same call never succeeds."""


class ModelTooLong(ModelRefused):
    """The conversation or the text is longer than what the model takes: one that is shorter may be answered.

    `limit`: how many tokens the model takes, None when the server did not say.
    """

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class ModelMisconfigured(ModelRefused):
    """The server refuses every request so: a wrong key, an unknown model, no credit, a quota that is used up.

    Another model may answer.
    """


class KeyRefused(ModelMisconfigured):
    """The server does not know the key."""


class ModelUnavailable(ModelFailed):
    """Nothing came (429, 5xx, no connection, no first byte in time): try again later, not counted as an attempt.

    `status`: what it answered; 0: nothing. `stated_s`: for how long its server asks to be left alone, even where it
    is tried sooner; None: it does not say.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, *, status: int = 0, stated_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.stated_s = stated_s


class ModelBusy(ModelUnavailable):
    """As many calls as it may have are under way. `retry_after` is when this call's turn may come."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, retry_after)


class ModelCutOff(ModelFailed):
    """The answer began and did not end: cut, stalled or out of time. Counts as a failed attempt."""


UNNAMED = "default"
"""The name of a model that is the first which its server lists, until it has answered."""
STALL_S = 60.0
"""Seconds of silence within an answer after which it counts as cut off."""


class ChatModel(Protocol):
    """A model that answers one request at a time, any number of them at once."""

    @property
    def name(self) -> str:
        """The model's id, for logs, metrics and manifests."""
        ...

    @property
    def place(self) -> str | None:
        """The address it is asked at, without anything secret; None for what answers in this process."""
        ...

    @property
    def learned(self) -> tuple[str, ...]:
        """What its server's refusals have taught of how it is asked, in words."""
        return ()

    def warm(self) -> None:
        """Import and make what the first call needs. Blocks: call it in a thread before work comes."""
        ...

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        """Ask, hand each delta to `on_delta`, return the whole answer. Raises `ModelFailed` and nothing else.

        Cancelling the coroutine closes the connection to the server at once.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        ...


class ModelGate(Protocol):
    """What all processes must agree on before a call: how many there are, and who finds out whether a model is well."""

    async def enter(self, model_id: str, limit: int, caller: str, wait: bool) -> str:
        """Take one of the model's places; returns its name, for `leave`.

        Raises `ModelBusy` when none is free; with ``wait`` the caller keeps its turn until it asks again.
        """
        ...

    def leave(self, model_id: str, place: str) -> None:
        """Give the place back. Waits for nothing."""
        ...

    async def may_probe(self, model_id: str, for_s: float) -> bool:
        """Whether this process may make the one probe that there is at a time; it takes at most so long."""
        ...

    def probed(self, model_id: str) -> None:
        """The probe is over. Waits for nothing."""
        ...
