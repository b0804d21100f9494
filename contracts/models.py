"""Models as operators register them, and their health as running processes report it."""

import json
import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
    model_validator,
)

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import Identifier

ModelKind = Literal["llm", "embedding"]
ModelProtocol = Literal["openai", "anthropic", "dashscope", "offline", "simple", "local"]
ThinkTagsHabit = Literal["written", "begun"]
ModelState = Literal["ok", "failing", "probing", "open"]
"""State of a model's circuit breaker. ``failing``: some of the last calls failed. ``open``: no calls are made.
``probing``: one call finds out whether the model works again."""

MAX_PARAMETERS = 16_384
"""Bytes that a model's parameters may have as JSON."""
MIN_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS = 256, 1_000_000_000
"""Bounds of a model's window. What lies outside of them is a mistake, wherever it is said."""
_PROTOCOLS: dict[str, tuple[str, ...]] = {
    "llm": ("openai", "anthropic", "dashscope", "offline"),
    "embedding": ("openai", "dashscope", "simple", "local"),
}
_WITH_TAGS = ("openai", "dashscope")
_WITHOUT_ENDPOINT = ("offline", "simple", "local")
_RESERVED_PARAMETERS = (
    "messages",
    "model",
    "tools",
    "tool_choice",
    "functions",
    "system",
    "stream",
    "stream_options",
    "n",
)
"""Fields of a request that operators cannot set."""
_MAX_DIMENSIONS = 65_536
"""Dimensions that a vector may have."""
_KEY_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,120}_API_KEY")
_INLINE = frozenset({"api_key", "apikey", "apiKey", "api-key", "key", "token", "secret"})
_VISIBLE = re.compile(r"[!-~]+")


class Prices(Contract):
    """The prices of a model, in US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid")

    input: float = Field(default=0.0, ge=0, le=1e6)
    output: float = Field(default=0.0, ge=0, le=1e6)
    cached_input: float | None = Field(default=None, ge=0, le=1e6)
    """Price of input tokens that the server had in its cache; None: the price of other input tokens."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: price for name, price in serialize(self).items() if price is not None}

    def usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return the price of a call in US dollars. ``cached_tokens`` are a part of the input tokens."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = input_tokens - cached_tokens
        return (self.input * fresh + cached * cached_tokens + self.output * output_tokens) / 1e6


class ModelEntry(Contract):
    """One model of the registry. Unknown fields are refused: they may be misspelled, or meant for a newer version."""

    model_config = ConfigDict(extra="forbid")

    id: Identifier
    """Name of the model in instructions, fallbacks and metrics."""
    kind: ModelKind = "llm"
    protocol: ModelProtocol = "openai"
    endpoint: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """Base address, http or https; None: the address of the protocol's own provider."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Name of the model at its server; None: the first model that the server lists."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Parameters that are sent with each request as they are: ``temperature``, ``max_tokens`` and so on."""
    api_key_env: Annotated[str, StringConstraints(max_length=128)] | None = None
    """Environment variable with the API key, in the services that call the model."""
    fallbacks: Annotated[tuple[Identifier, ...], Field(max_length=8)] = ()
    """Ids of the models that are called in this order when this one cannot answer; their own fallbacks are not
    called."""
    concurrency: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of simultaneous calls in the whole system."""
    prices: Prices | None = None
    vision: bool = False
    """Whether the model sees images: it is sent those that users attach and tools make."""
    tools: Literal["native", "text"] | None = None
    """Form in which the model calls tools for instructions that leave it open (``calls = "auto"``). ``text``: it has no
    tool calls of its own. Absent: native, until its server refuses tools."""
    context_tokens: Annotated[int, Field(ge=MIN_CONTEXT_TOKENS, le=MAX_CONTEXT_TOKENS)] | None = None
    """Tokens that a prompt and its answer may have together; None: as many as the server is found to take."""
    think_tags: ThinkTagsHabit | None = None
    """How the model writes its reasoning into the answer: ``written``: between <think> and </think> at the beginning;
    ``begun``: the same, but the server has put the first tag into the prompt. None: it does not."""
    begin_s: Annotated[float, Field(ge=0.1, le=3600)] = 60.0
    """Seconds within which an answer must begin when another model can take over."""
    default: bool = False
    """Whether the model is used where no model is named. One model of each kind is the default."""

    @model_validator(mode="before")
    @classmethod
    def _no_key_inside(cls, given: Any) -> Any:
        if isinstance(given, dict) and (inline := sorted(_INLINE.intersection(given))):
            raise ValueError(
                f"{inline[0]}: a key does not belong here: put it into an environment variable and name that in "
                "api_key_env, like OPENAI_API_KEY"
            )
        return given

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            _check_endpoint(value)
        return value

    @field_validator("api_key_env")
    @classmethod
    def _names_a_model_key(cls, value: str | None) -> str | None:
        if value is not None and not is_model_key_name(value):
            raise ValueError(
                "must be the name of an environment variable that ends in _API_KEY and does not begin with PENTAD_, "
                "like OPENAI_API_KEY: no other is ever sent"
            )
        return value

    @field_validator("parameters")
    @classmethod
    def _can_be_sent(cls, value: dict[str, Any]) -> dict[str, Any]:
        if reserved := sorted(set(_RESERVED_PARAMETERS).intersection(value)):
            raise ValueError(f"{reserved[0]} is not for the registry to set: each request has its own")
        try:
            size = len(json.dumps(value, allow_nan=False).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"must be JSON: {error}") from None
        if size > MAX_PARAMETERS:
            raise ValueError(f"must have at most {MAX_PARAMETERS} bytes as JSON, not {size}")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.protocol not in _PROTOCOLS[self.kind]:
            raise ValueError(f"protocol: of kind {self.kind} there are {', '.join(_PROTOCOLS[self.kind])}")
        if self.protocol in _WITHOUT_ENDPOINT and (self.endpoint or self.api_key_env or self.parameters):
            raise ValueError(f"protocol {self.protocol} has no endpoint, no key and no parameters")
        if self.think_tags is not None and self.protocol not in _WITH_TAGS:
            raise ValueError(f"think_tags: models of protocol {self.protocol} write none into their answers")
        if self.protocol == "anthropic" and self.model is None:
            raise ValueError("model: this protocol cannot ask which models there are: name one")
        if self.kind == "embedding":
            self._is_an_embedding()
        if self.id in self.fallbacks or len(set(self.fallbacks)) != len(self.fallbacks):
            raise ValueError("fallbacks: name each other model once, and not the model itself")
        return self

    def _is_an_embedding(self) -> None:
        if self.fallbacks:
            raise ValueError("fallbacks: vectors of two models do not compare, so an embedding model has none")
        if self.think_tags is not None:
            raise ValueError("think_tags: an embedding model says nothing")
        if self.tools is not None:
            raise ValueError("tools: an embedding model calls none")
        if self.context_tokens is not None:
            raise ValueError("context_tokens: an embedding model has no prompts: it is asked for less where it refuses")
        if set(self.parameters) - {"dimensions"}:
            raise ValueError("parameters: an embedding model has `dimensions` alone")
        length = self.parameters.get("dimensions", 1)
        if type(length) is not int or not 0 < length <= _MAX_DIMENSIONS:
            raise ValueError(f"parameters: dimensions must be a number from 1 to {_MAX_DIMENSIONS}")


def is_model_key_name(variable: str) -> bool:
    """Return whether an environment variable may hold a model's key."""
    return _KEY_NAME.fullmatch(variable) is not None and not variable.startswith("PENTAD_")


def _check_endpoint(value: str) -> None:
    """Raise ``ValueError`` for a text that is no plain address, without the text: it may contain a secret."""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or _VISIBLE.fullmatch(value) is None:
        raise ValueError("must be an address that starts with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password: name the key's variable in api_key_env")
    if "?" in value or "#" in value:
        raise ValueError("must not have a query: it could hold a secret, and requests have none")


MOST_LEARNED = 32
"""Adaptations to a model's server that its health may list."""


class ModelHealth(Contract):
    """The health of a model in one process."""

    id: Identifier
    kind: ModelKind
    state: ModelState
    since: str
    """Time at which the model came into this state: RFC 3339."""
    error: str | None = None
    """Reason of the last failed call; None if no call has failed."""
    refused: bool = False
    """Whether calls are refused for a reason that only a person can mend: a wrong key, an unknown model, no credit."""
    learned: tuple[str, ...] = ()
    """Adaptations of requests to the model's server after it has refused a request, each with the server's words."""
    model: str | None = None
    """Name of the model in the requests of the process."""
    place: str | None = None
    """Address of the model's server; None for a model that runs inside the process."""
    context_tokens: int | None = None
    """Tokens that the model takes, by its entry or by a refusal of its server; None: not known."""
