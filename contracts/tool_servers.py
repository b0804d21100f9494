"""MCP servers whose tools tool-workers offer, as operators name them, and how each does."""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import is_external_id, is_identifier
from pentad.contracts.tools import MAX_LIMIT, RateText

ServerSource = Literal["file", "registered"]
"""Where a server is named: in the file of ``PENTAD_MCP``, or registered while the system runs."""
ServerTransport = Literal["stdio", "http", "sse"]
"""How a server is spoken to: a program's standard input and output, streamable HTTP, or the older HTTP with SSE."""
ServerCondition = Literal["ready", "connecting", "failing", "no_secret", "signed_out", "refused"]
"""Condition of a server in one tool-worker, from the best to the worst: ``connecting`` for the first time,
``signed_out``: nobody has signed in to it, ``no_secret``: nobody has the secrets that it needs, ``failing``: tried
again and again, ``refused``: this worker may not use it."""

MAX_SERVER_BYTES = 65_536
"""Bytes that the entry of one server may have as JSON."""
MAX_SERVER_TIMEOUT_S = 3600.0
"""Seconds that a call of a server's tool may have at most."""
MAX_LEFT_OUT = 20
"""Tools that a server has and that are not offered, of which a report names the reason."""
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_OWN_HEADERS = frozenset(
    {"accept", "connection", "content-encoding", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that the protocol itself sets."""
_OWN_HEADER_PREFIX = "mcp-"
SECRET_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_SECRET = re.compile(r"\{\{\s{0,8}secret:(" + SECRET_NAME + r")\s{0,8}\}\}")
_SECRET_BEGUN = re.compile(r"\{\{\s{0,8}secret\b")

_Text = Annotated[str, StringConstraints(max_length=8_192)]
_Value = Annotated[str, StringConstraints(max_length=32_768)]
_ToolNames = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...], Field(max_length=1000)
]


class ServerSignIn(Contract):
    """The client with which persons sign in to a server by OAuth; without one it is registered there."""

    model_config = ConfigDict(extra="forbid")

    client_id: Annotated[str, StringConstraints(min_length=1, max_length=1_024)] | None = None
    client_secret: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    """Secret of the client; it may be ``{{secret:NAME}}``, which is the tenant's."""
    scope: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    """Scopes that are asked for, separated by blanks; None: those that the server names."""

    @field_validator("client_id", "client_secret", "scope")
    @classmethod
    def _is_a_line(cls, value: str | None) -> str | None:
        if value is not None and not is_header_text(value):
            raise ValueError("must be a line of ASCII")
        return value

    @model_validator(mode="after")
    def _is_a_client(self) -> Self:
        if self.client_secret is not None:
            if self.client_id is None:
                raise ValueError("client_secret needs the client_id whose secret it is")
            check_secrets("oauth", {"client_secret": self.client_secret})
        return self

    @property
    def secrets(self) -> list[str]:
        """Names of the tenant's secrets that the client's secret is made of."""
        return secrets_in(self.client_secret or "")

    def secret_with(self, values: Mapping[str, str]) -> str | None:
        """Return the client's secret with the tenant's filled in. Raises ``KeyError`` for one that is missing."""
        if self.client_secret is None:
            return None
        return fill_secrets({"client_secret": self.client_secret}, values)["client_secret"]

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Show nothing that may be secret."""
        return [("client_id", self.client_id)]


class ToolServer(Contract):
    """One MCP server. Unknown fields are refused: they may be misspelled, or meant for a newer version."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Name of the server; its tools are named after it."""
    command: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    """Program that is started, and spoken to on its standard input and output."""
    args: Annotated[tuple[_Text, ...], Field(max_length=256)] = ()
    env: Annotated[Mapping[str, _Value], Field(max_length=256)] = Field(default_factory=dict)
    """Variables of the program beside ``PATH`` and ``HOME``; values may hold ``{{secret:NAME}}``."""
    cwd: Annotated[str, StringConstraints(min_length=1, max_length=4_096)] | None = None
    """Folder in which the program starts."""
    url: Annotated[str, StringConstraints(max_length=4_096)] | None = None
    """Address of a server that runs elsewhere."""
    sse: bool = False
    """Whether the server at ``url`` speaks the older HTTP with SSE."""
    headers: Annotated[Mapping[str, _Value], Field(max_length=64)] = Field(default_factory=dict)
    """Headers of each request; values may hold ``{{secret:NAME}}``."""
    oauth: ServerSignIn | None = None
    """How persons sign in to it by OAuth, where it does not say all of that itself."""
    timeout: Annotated[float, Field(gt=0, le=MAX_SERVER_TIMEOUT_S)] | None = None
    """Seconds that a call may take; None: as long as of any tool that does not say."""
    concurrency: Annotated[int, Field(strict=True, ge=1, le=MAX_LIMIT)] | None = None
    """Calls of its tools that run at once, over all workers; None: any number."""
    rate: RateText | None = None
    """Calls of its tools that begin within a time, over all workers, like ``10/min``; None: any number."""
    only: _ToolNames | None = None
    """Tools that are offered; None: all."""
    without: _ToolNames = ()
    """Tools that are not offered."""
    list_as: Annotated[str, StringConstraints(min_length=1, max_length=300)] | None = None
    """Owner of the secrets that read the list of tools: ``TENANT`` or ``TENANT/USER``; None: the first with all."""

    @field_validator("list_as")
    @classmethod
    def _is_an_owner(cls, value: str | None) -> str | None:
        if value is not None:
            tenant, slash, user = value.partition("/")
            if not is_identifier(tenant) or (slash and not is_external_id(user)):
                raise ValueError("must be TENANT or TENANT/USER")
        return value

    @field_validator("name", "command", "cwd")
    @classmethod
    def _is_one_line(cls, value: str | None) -> str | None:
        if value is not None and (_PRINTABLE.fullmatch(value) is None or not value.strip()):
            raise ValueError("must be a line of text, without control characters")
        return value

    @field_validator("args")
    @classmethod
    def _have_no_nul(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, each in enumerate(value, start=1):
            if "\0" in each:
                raise ValueError(f"argument {number} has a character NUL, which no program can be given")
        return value

    @field_validator("env")
    @classmethod
    def _are_variables(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in value.items():
            if _VARIABLE.fullmatch(name) is None:
                raise ValueError(f"{name[:64]!r} is not the name of a variable: it has letters, digits and _")
            if not _is_variable_text(text):
                raise ValueError(f"the value of {name} has a character NUL, which no program can be given")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        check_headers(value, _OWN_HEADERS, _OWN_HEADER_PREFIX)
        return value

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            split_address(value)
        return value

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("it needs either a command, for a program, or a url, for a server that runs elsewhere")
        strange = [
            name
            for name, given in (
                *((n, self.url is not None and bool(getattr(self, n))) for n in ("args", "env", "cwd")),
                *((n, self.command is not None and bool(getattr(self, n))) for n in ("headers", "sse", "oauth")),
            )
            if given
        ]
        if strange:
            other = "a server with a command" if self.url is not None else "a server with a url"
            raise ValueError(f"{strange[0]} belongs to {other}")
        if self.oauth is not None and not self.can_sign_in:
            raise ValueError("oauth signs persons in: leave out the header Authorization, and secrets in headers")
        return self

    @model_validator(mode="after")
    def _secrets_stand_where_they_may(self) -> Self:
        texts = [
            ("command", self.command),
            ("url", self.url),
            ("cwd", self.cwd),
            *(("args", each) for each in self.args),
        ]
        for field, text in texts:
            if text is not None and holds_secret(text):
                raise ValueError(f"{field}: a secret would be seen there: put it into env or headers")
        check_secrets("env", self.env)
        check_secrets("headers", self.headers)
        return self

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        if len(to_json(self.__dict__)) > MAX_SERVER_BYTES:
            raise ValueError(f"it has more than {MAX_SERVER_BYTES} bytes")
        return self

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Show nothing that may be secret."""
        return [("name", self.name), ("place", self.place)]

    @property
    def transport(self) -> ServerTransport:
        """How the server is spoken to."""
        if self.command is not None:
            return "stdio"
        return "sse" if self.sse else "http"

    @property
    def can_sign_in(self) -> bool:
        """Whether a person may be asked to sign in: nothing else says who asks."""
        return self.url is not None and not self.secrets and "authorization" not in map(str.lower, self.headers)

    @property
    def place(self) -> str:
        """The program's name, or scheme and host of the address: the rest may hold secrets."""
        if self.url is not None:
            parts = split_address(self.url)
            return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return str(self.command).replace("\\", "/").rpartition("/")[2]

    @property
    def secrets(self) -> list[str]:
        """Names of the secrets that a connection needs, sorted."""
        return secrets_in(*self.env.values(), *self.headers.values())

    def misfit(self, values: Mapping[str, str]) -> str | None:
        """Return the name of a secret that cannot stand where it is meant to; None when all can."""
        for texts, fits in ((self.env, _is_variable_text), (self.headers, is_header_text)):
            for name in secrets_in(*texts.values()):
                if not fits(values[name]):
                    return name
        return None

    def with_secrets(self, values: Mapping[str, str]) -> Self:
        """Return a copy in which the secrets are filled in. Raises ``KeyError`` for one that is missing."""
        filled = {"env": fill_secrets(self.env, values), "headers": fill_secrets(self.headers, values)}
        return self.model_copy(update=filled)


def check_headers(headers: Mapping[str, str], own: Collection[str], own_prefix: str | None = None) -> None:
    """Raise ``ValueError`` for headers that cannot be sent, and for those that the protocol itself sets.

    ``own``: names of these in small letters; ``own_prefix``: what such names begin with.
    """
    for name, text in headers.items():
        if _HEADER.fullmatch(name) is None:
            raise ValueError(f"{name[:64]!r} is not the name of a header")
        if name.lower() in own or (own_prefix is not None and name.lower().startswith(own_prefix)):
            raise ValueError(f"the header {name} is the protocol's own: leave it out")
        if not is_header_text(text):
            raise ValueError(f"the value of {name} must be a line of ASCII")


def check_secrets(field: str, texts: Mapping[str, str]) -> None:
    """Raise ``ValueError`` for a secret in one of these texts that is not written as one."""
    for name, text in texts.items():
        if len(_SECRET_BEGUN.findall(text)) != len(_SECRET.findall(text)):
            raise ValueError(f"{field}.{name}: write a secret as {{{{secret:NAME}}}}, NAME of A-Z a-z 0-9 . _ -")


def holds_secret(text: str) -> bool:
    """Return whether a text asks for a secret."""
    return _SECRET_BEGUN.search(text) is not None


def secrets_in(*texts: str) -> list[str]:
    """Return the names of the secrets that these texts hold, sorted."""
    return sorted({name for text in texts for name in _SECRET.findall(text)})


def fill_secrets(texts: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Return texts in which the secrets are filled in. Raises ``KeyError`` for one that is missing."""
    return {name: _SECRET.sub(lambda found: values[found[1]], text) for name, text in texts.items()}


def is_header_text(text: str) -> bool:
    """Return whether a text can be the value of a header."""
    return _PRINTABLE.fullmatch(text) is not None and text.isascii()


def _is_variable_text(text: str) -> bool:
    return "\0" not in text


def split_address(url: str) -> SplitResult:
    """Split an address. The ``ValueError`` for an invalid one does not repeat it: it may hold a secret."""
    try:
        parts = urlsplit(url)
        wrong = not parts.hostname or parts.port == 0 or bool(parts.fragment) or not url.isascii() or " " in url
    except ValueError:
        wrong, parts = True, urlsplit("")
    if wrong or parts.scheme not in ("http", "https"):
        raise ValueError("must be an address like https://HOST/PATH, of http or https")
    return parts


class LeftOutTool(Contract):
    """A tool that a server has and that is not offered."""

    tool: str
    why: str


class ServerReport(Contract):
    """How a server does in one tool-worker. Nothing in it is secret."""

    name: str
    source: ServerSource
    transport: ServerTransport
    place: str
    condition: ServerCondition
    since: str
    """Time at which the server came into this condition."""
    error: str | None = None
    """Why it is not ready."""
    said: str | None = None
    """Words of its program on standard error, or a line of its that is no message; shown to operators alone."""
    tools: int = 0
    """Tools that are offered."""
    left_out: tuple[LeftOutTool, ...] = ()
    """Tools that are not offered, the first of them."""
    left_out_count: int = 0
    secrets: tuple[str, ...] = ()
    """Names of the secrets that each user needs."""
    protocol: str | None = None
    """Version of the protocol that it speaks."""
    connections: int = 0
