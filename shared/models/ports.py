"""The port of chat models: one streamed answer per call, and three ways to fail.

Each failure tells the caller whether to try again, and whether the attempt counts: never (`ModelRefused`), later
without counting it (`ModelUnavailable`), or again and counted (`ModelCutOff`).
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
    """One model call.

    `messages` are ready JSON objects in OpenAI chat form, the system message first. `tools` is a ready JSON array in
    OpenAI form, or None. `timeout_s` bounds the whole call, retries included. `model` overrides the client's own model
    id. With `begin_s` another model stands ready: the answer must begin within this many seconds, and a server that
    cannot answer is not asked twice. `cut` counts the answers to this request that were cut off before. `caller` names
    whose call it is, for its place in the queue of calls. Ready bytes matter: with 800 messages building a request from
    objects costs the SDK 130 ms of CPU, joining bytes about 1.
    """

    messages: Sequence[bytes]
    tools: bytes | None
    timeout_s: float
    model: str | None = None
    may_call: bool = True
    """Whether the model may call tools. If not, they are still sent, because servers refuse messages that mention tools
    which are not in the request."""
    begin_s: float | None = None
    cut: int = 0
    caller: str = ""
    answer_schema: bytes | None = None
    """The JSON schema, ready bytes, that the answer must fit, for servers that hold their models to one."""
    teaches: bool = True
    """Whether a refusal of this request teaches how later ones are written: not where a stranger has written it."""
    temperature: float | None = None
    """Temperature that goes before the model's own; None: the model's."""
    max_tokens: int | None = None
    """Limit of the answer's tokens that goes before the model's own; None: the model's."""
    images: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Data URLs of images by their paths, for models that see them, of the files that the messages name."""
    on_cut: Callable[[ModelAnswer], None] | None = None
    """Takes the answer as far as it has come when the call is cancelled in the middle of it."""


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
    """Input tokens that the server had in its cache."""
    estimated: bool = False
    """Whether the tokens are estimated from the length of the texts, because the server did not count them."""


@immutable
class ModelAnswer:
    """A complete answer.

    `model` is the id that the server says it used, `model_id` the registry's id of the model that answered: '' for the
    environment's model. `thoughts` is what the model must be sent back with its tool calls, see `kept`.
    `too_many_calls` tells that there were more calls, which were not read.

    `whole_calls` is the number of tool calls, from the first on, that are complete even when the answer was cut off,
    because another call followed; None means all but the last. `finish_said` tells that the server has said why the
    answer ended; else `finish_reason` is assumed.
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
    saw_images: bool = False
    """Whether the model was sent images."""


class ModelFailed(Exception):  # noqa: N818 - reads as what happened
    """A model call failed. The message says what to do about it and never holds the API key."""

    refusal: ServerRefusal | None = None
    """The server's refusal of the request, where another form of the request may be answered."""
    retry_after: float | None = None
    """Seconds that the server asked to wait; None when it did not say."""


class ModelRefused(ModelFailed):
    """The server understood and refused (4xx other than 408, 409 and 429): the same call never succeeds."""


class ModelTooLong(ModelRefused):
    """The conversation or the text is longer than the model takes: a shorter one may be answered.

    `limit` is the number of tokens that the model takes, `asked` the number that the server has counted in the request;
    each is None when the server did not say.
    """

    def __init__(self, message: str, limit: int | None = None, asked: int | None = None) -> None:
        super().__init__(message)
        self.limit, self.asked = limit, asked


class ModelMisconfigured(ModelRefused):
    """The server refuses every request in this way: a wrong key, an unknown model, no credit, a quota that is used up.

    Another model may answer.
    """


class KeyRefused(ModelMisconfigured):
    """The server does not know the key."""


class ModelUnavailable(ModelFailed):
    """No answer began (429, 5xx, no connection, no first byte in time): try again later; it does not count as an
    attempt.

    `status` is the HTTP status, 0 without one. `retry_after` is the number of seconds until it is asked again,
    `stated_s` the number of seconds that the server asked for, which may be larger; None when it named none.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, *, status: int = 0, stated_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.stated_s = stated_s


class ModelBusy(ModelUnavailable):
    """The model has as many calls under way as its limit allows. `retry_after` is when this call may get its turn."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, retry_after)


class ModelCutOff(ModelFailed):
    """The answer began and did not end: it was cut, stalled or ran out of time. This counts as a failed attempt."""


UNNAMED = "default"
"""The name of a model that is to be the first one its server lists, until the server has answered."""
STALL_S = 60.0
"""Seconds of silence within an answer after which the answer counts as cut off."""


class ChatModel(Protocol):
    """A chat model. It may be asked any number of requests at once."""

    @property
    def name(self) -> str:
        """The model's id, for logs, metrics and manifests."""
        ...

    @property
    def place(self) -> str | None:
        """The address of the server, without anything secret; None for a model that answers in this process."""
        ...

    @property
    def learned(self) -> tuple[str, ...]:
        """The changes that the server's refusals have taught for requests to this model, in words."""
        return ()

    @property
    def window(self) -> int | None:
        """The tokens that the model takes, as a refusal of its server has named them; None: it has named none."""
        return None

    def warm(self) -> None:
        """Import and make everything that the first call needs. This blocks: call it in a thread before work comes."""
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
    """The decisions that all processes share before a call: how many calls a model may have, and who probes a failed
    model."""

    async def enter(self, model_id: str, limit: int, caller: str, wait: bool) -> str:
        """Take one of the model's places and return the name of the place, for `leave`.

        Raises `ModelBusy` when none is free; with ``wait`` the caller keeps its turn until it asks again.
        """
        ...

    def leave(self, model_id: str, place: str) -> None:
        """Give the place back. This does not wait."""
        ...

    async def may_probe(self, model_id: str, for_s: float) -> bool:
        """Whether this process may make the probe, of which there is one at a time. The probe takes at most ``for_s``
        seconds."""
        ...

    def probed(self, model_id: str) -> None:
        """Tell that the probe is over. This does not wait."""
        ...
