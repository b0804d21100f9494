"""The registry of tools that are endpoints of HTTP, which an operator changes: one by one, or an API as a whole."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.http_tools import HttpTool
from pentad.contracts.plain_json import read_json
from pentad.contracts.tools import Effect
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.operator.api_document import (
    ApiOptions,
    DocumentTools,
    LeftOutOperation,
    WrongDocumentError,
    tools_of,
)
from pentad.shared.clipping import plain
from pentad.shared.entry_file import complaints
from pentad.shared.outbound.address_guard import OutboundError
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.explicit_schema import arguments_alone
from pentad.shared.presence.published import TOOLS
from pentad.shared.registries.registrations import REGISTERED_HTTP_TOOLS
from pentad.shared.store.store import Store

MAX_HTTP_TOOLS = 256
"""Tools that may be registered: workers read them all whenever one changes."""
_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1_000
_MAX_LEFT_OUT = 100
"""Operations that are no tools, of which an answer says why."""
_NAMED = 5
"""Names that an error repeats."""
_SHARED_FIELDS = ("headers", "timeout_s", "approval", "queue")
"""Fields that all tools of an API have."""


class ApiRegistration(Contract):
    """A request to register the operations of an OpenAPI document."""

    model_config = ConfigDict(extra="forbid")

    openapi: dict[str, Any] | Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    """The document, or its address."""
    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] | None = None
    operations: (
        Annotated[tuple[Annotated[str, StringConstraints(max_length=300)], ...], Field(max_length=1_000)] | None
    ) = None
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{0,32}$")] = ""
    effects: Annotated[Mapping[str, Effect], Field(max_length=1_000)] = Field(default_factory=dict)
    headers: Any = None
    timeout_s: Any = None
    approval: Any = None
    queue: Any = None

    def options(self) -> ApiOptions:
        """Return what is asked for in the words of `tools_of`."""
        given = {name: getattr(self, name) for name in _SHARED_FIELDS}
        address = self.openapi if isinstance(self.openapi, str) else None
        fields = {name: value for name, value in given.items() if value is not None}
        return ApiOptions(self.url, address, self.operations, self.prefix, self.effects, fields)


class HttpToolRegistry:
    """Changes the registry. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``allowed``: hosts that documents may be read from though they are inside.
    """

    def __init__(self, store: Store, allowed: tuple[str, ...]) -> None:
        self._store, self._allowed = store, allowed

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add what a body describes, in the place of registered tools of the same names; return how it stands, and
        whether some of it is new."""
        if "openapi" not in body:
            tool = _tool(body)
            new = await self._write([tool])
            return _told([tool], [], None), bool(new)
        asked = _registration(body)
        found = await self._converted(asked)
        if not found.tools:
            raise invalid(f"no operation of the document can be a tool: {_reasons(found.left_out)}"[:_MAX_ERROR_CHARS])
        new = await self._write(found.tools)
        warning = None
        if found.wants_credentials and not asked.headers:
            warning = "the document asks for credentials: give them in headers, as {{secret:NAME}} for each user's own"
        return _told(found.tools, found.left_out, warning), bool(new)

    async def delete(self, name: str) -> None:
        """Remove a registered tool; it is offered no more within two seconds."""
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_HTTP_TOOLS.read(self._store)
            if name not in {each.name for each in read.entries}:
                if name in await TOOLS.names(self._store):
                    raise ProblemError(409, f"tool {name} was not registered here: it is of a plug-in or a server")
                raise missing("there is no such registered tool")
            if await REGISTERED_HTTP_TOOLS.write(self._store, read, name, None):
                return
        raise busy("others change the registry at the same time: try again")

    async def _write(self, tools: Sequence[HttpTool]) -> int:
        """Put tools in their places, all or none; return how many are new."""
        wanted = {tool.name: tool for tool in tools}
        published = await TOOLS.read(self._store)
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_HTTP_TOOLS.read(self._store)
            known = {each.name for each in read.entries}
            taken = sorted(name for name in wanted if name in published and not published[name].registered)
            if taken:
                raise ProblemError(
                    409,
                    f"a plug-in, a server or Pentad itself has tools of these names: {', '.join(taken[:_NAMED])}; "
                    "choose another name, or a prefix",
                )
            self._check_number(known, wanted.keys() - known)
            if await REGISTERED_HTTP_TOOLS.write_all(self._store, read, wanted):
                return len(wanted.keys() - known)
        raise busy("others change the registry at the same time: try again")

    @staticmethod
    def _check_number(known: set[str], new: set[str]) -> None:
        if len(known) + len(new) > MAX_HTTP_TOOLS:
            raise ProblemError(
                409,
                f"there would be {len(known) + len(new)} registered tools, at most {MAX_HTTP_TOOLS}: name the "
                "operations that are wanted, or delete some",
            )

    async def _converted(self, asked: ApiRegistration) -> DocumentTools:
        document = asked.openapi if isinstance(asked.openapi, dict) else await self._fetched(asked.openapi)
        try:
            # Beside the event loop: a large document takes a second.
            return await asyncio.to_thread(tools_of, document, asked.options())
        except WrongDocumentError as error:
            raise invalid(str(error)[:_MAX_ERROR_CHARS]) from None

    async def _fetched(self, address: str) -> dict[str, Any]:
        """Return the document at an address."""
        from pentad.shared.outbound.outside_client import OutsideClient

        client = OutsideClient(self._allowed)
        try:
            answer = await client.get(address, accept="application/json, */*;q=0.5")
        except OutboundError as error:
            raise invalid(f"the document cannot be read: {error}") from None
        finally:
            await client.aclose()
        if answer.status != 200:
            raise invalid(f"the document cannot be read: {plain(answer.url, 200)} answered {answer.status}")
        if answer.is_cut:
            raise invalid(f"the document has more than {len(answer.body)} bytes: make a smaller one")
        try:
            document = await asyncio.to_thread(read_json, answer.body)
        except ValueError as error:
            raise invalid(f"the document is no JSON (YAML is not read): {plain(str(error), 200)}") from None
        if not isinstance(document, dict):
            raise invalid("the document is no JSON object")
        return document


def _tool(body: Mapping[str, Any]) -> HttpTool:
    """Return the tool that a body describes. Raises ``ProblemError`` (422)."""
    try:
        tool = HttpTool.model_validate(body)
        arguments_alone(tool.name, tool.parameters)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
    except PluginError as error:
        raise invalid(str(error)[:_MAX_ERROR_CHARS]) from None
    return tool


def _registration(body: Mapping[str, Any]) -> ApiRegistration:
    try:
        asked = ApiRegistration.model_validate(body)
        shared = {name: value for name in _SHARED_FIELDS if (value := getattr(asked, name)) is not None}
        HttpTool.model_validate({"name": "x", "url": asked.url or "https://example.com/", **shared})
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
    return asked


def _told(tools: Sequence[HttpTool], left_out: Sequence[LeftOutOperation], warning: str | None) -> dict[str, Any]:
    return {
        "items": [_shown(tool) for tool in tools],
        "left_out": [{"operation": each.operation, "why": each.why} for each in left_out[:_MAX_LEFT_OUT]],
        "left_out_count": len(left_out),
        "warning": warning,
    }


def _shown(tool: HttpTool) -> dict[str, Any]:
    """Return a tool without what may be secret."""
    return {
        "name": tool.name,
        "method": tool.method,
        "place": tool.place,
        "effect": tool.actual_effect,
        "secrets": tool.secrets,
    }


def _reasons(left_out: Sequence[LeftOutOperation]) -> str:
    return "; ".join(f"{each.operation}: {each.why}" for each in left_out[:_NAMED]) or "it has none"
