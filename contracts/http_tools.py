"""Tools that are an endpoint of HTTP, as operators register them while the system runs."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.tool_servers import (
    MAX_SERVER_TIMEOUT_S,
    check_headers,
    check_secrets,
    holds_secret,
    secrets_in,
    split_address,
)
from pentad.contracts.tools import RESERVED_NAMES, TIMEOUT_S, Effect, ToolSpec

MAX_HTTP_TOOL_BYTES = 65_536
"""Bytes that one registered tool may have as JSON."""
MAX_DESCRIPTION_CHARS = 4_096
"""Characters that the description of a registered tool may have."""
HttpMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
ArgumentPlace = Literal["path", "query", "header", "body", "whole_body"]
"""Place of an argument in a request: in the path, as a parameter of the query, as a header, as a member of the JSON
object in the body, or as the JSON value that the whole body is."""
ArgumentForm = Literal["plain", "comma", "deep", "json"]
"""Form of a list or an object outside a body: a parameter for each item, one with commas between the items, a parameter
for each member as ``NAME[MEMBER]``, or JSON."""
OWN_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "idempotency-key", "transfer-encoding"}
)
"""Headers that a request has of its own, in small letters."""
EFFECT_OF_METHOD: Mapping[str, Effect] = {
    "GET": Effect.PURE,
    "PUT": Effect.IDEMPOTENT,
    "DELETE": Effect.IDEMPOTENT,
    "POST": Effect.UNSAFE,
    "PATCH": Effect.UNSAFE,
}
"""The effect that the standard of HTTP gives a method; that of PATCH may be any."""
_PLACEHOLDER = re.compile(r"\{([^{}/?#]{1,64})\}")
_WITHOUT_BODY = frozenset({"GET", "DELETE"})

_Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class HttpArgument(Contract):
    """The place in a request that an argument goes to."""

    model_config = ConfigDict(extra="forbid")

    place: ArgumentPlace
    name: _Name
    """Name of the argument there."""
    form: ArgumentForm = "plain"

    @model_validator(mode="after")
    def _can_be_a_header(self) -> Self:
        if self.place == "header":
            check_headers({self.name: ""}, OWN_HEADERS)
        return self


class HttpTool(Contract):
    """One tool. Unknown fields are refused: they may be misspelled, or meant for a newer version."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: Annotated[str, StringConstraints(max_length=MAX_DESCRIPTION_CHARS)] = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments, of type object."""
    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    """Address of the endpoint; ``{NAME}`` in its path or query stands for an argument."""
    method: HttpMethod = "POST"
    headers: Annotated[Mapping[str, Annotated[str, StringConstraints(max_length=32_768)]], Field(max_length=64)] = (
        Field(default_factory=dict)
    )
    """Headers of each request; values may hold ``{{secret:NAME}}``."""
    effect: Effect | None = None
    """Effect of running a call twice; None: that of the method."""
    timeout_s: Annotated[float, Field(gt=0, le=MAX_SERVER_TIMEOUT_S)] | None = None
    """Seconds that a call may take; None: as long as of any tool that does not say."""
    approval: Literal["never", "always"] = "never"
    """Whether a person must allow each call."""
    queue: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")] = "default"
    """Queue of the calls."""
    arguments: Annotated[Mapping[str, HttpArgument], Field(max_length=2_000)] = Field(default_factory=dict)
    """Places of arguments by their names. One that is not here goes into the placeholder of its name, else to the query
    of GET and DELETE, and to the JSON object in the body of other methods."""

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in RESERVED_NAMES:
            raise ValueError(f"the name {value} is Pentad's own: choose another")
        return value

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if holds_secret(value):
            raise ValueError("a secret would be seen there: put it into headers")
        without = _PLACEHOLDER.sub("x", value)
        parts = split_address(without)
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold a user name or a password: put them into headers, as {{secret:NAME}}")
        if "{" in without or "}" in without:
            raise ValueError("must hold names of arguments as {NAME}, of at most 64 characters")
        if _PLACEHOLDER.search(value.partition("://")[2].partition("/")[0].partition("?")[0]):
            raise ValueError("must not hold {NAME} in its host: an argument must not choose who is asked")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        check_headers(value, OWN_HEADERS)
        check_secrets("headers", value)
        return value

    @model_validator(mode="after")
    def _has_its_arguments(self) -> Self:
        if self.parameters.get("type") != "object" or not isinstance(self.parameters.get("properties", {}), Mapping):
            raise ValueError('parameters must be a JSON schema of "type": "object", with "properties"')
        known, required = self.parameters.get("properties", {}), self.parameters.get("required", [])
        for name in self.placeholders:
            argument = self._argument_in_path(name)
            if argument not in known or not isinstance(required, list) or argument not in required:
                raise ValueError(f"url: {{{name}}} needs an argument: add it to parameters, and to their required")
        if strange := sorted(self.arguments.keys() - known.keys()):
            raise ValueError(f"arguments: {strange[0][:64]!r} is not among the properties of parameters")
        taken = {name.lower() for name in self.headers}
        for name, each in self.arguments.items():
            if each.place == "header" and each.name.lower() in taken:
                raise ValueError(f"arguments: {name[:64]!r} would replace the header {each.name}: keep one of them")
        return self

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        if len(to_json(self.__dict__)) > MAX_HTTP_TOOL_BYTES:
            raise ValueError(f"it has more than {MAX_HTTP_TOOL_BYTES} bytes")
        return self

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Show nothing that may be secret."""
        return [("name", self.name), ("method", self.method), ("place", self.place)]

    @property
    def actual_effect(self) -> Effect:
        """The effect of running a call twice."""
        return self.effect or EFFECT_OF_METHOD[self.method]

    @property
    def placeholders(self) -> list[str]:
        """Names that the address holds in braces."""
        return _PLACEHOLDER.findall(self.url)

    @property
    def place(self) -> str:
        """Scheme and host of the address: the rest may hold what is not for everybody."""
        parts = split_address(_PLACEHOLDER.sub("x", self.url))
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def secrets(self) -> list[str]:
        """Names of the secrets that a call needs, sorted."""
        return secrets_in(*self.headers.values())

    def spec(self) -> ToolSpec:
        """Return the tool as workers publish it."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={"properties": {}, **self.parameters},
            effect=self.actual_effect,
            timeout=self.timeout_s or TIMEOUT_S,
            queue=self.queue,
            approval=self.approval,
            secrets=self.secrets,
            registered=True,
        )

    def _argument_in_path(self, placeholder: str) -> str:
        """Return the argument that fills a placeholder."""
        named = (name for name, each in self.arguments.items() if (each.place, each.name) == ("path", placeholder))
        return next(named, placeholder)

    def argument(self, name: str) -> HttpArgument:
        """Return the place of an argument."""
        given = self.arguments.get(name)
        if given is not None:
            return given
        if name in self.placeholders:
            return HttpArgument(place="path", name=name)
        return HttpArgument(place="query" if self.method in _WITHOUT_BODY else "body", name=name[:128])

    def with_values(self, values: Mapping[str, str]) -> str:
        """Return the address with these texts in its placeholders. Raises ``KeyError`` for one that is missing."""
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.url)
