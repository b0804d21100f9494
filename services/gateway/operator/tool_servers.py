"""The registry of MCP servers that an operator changes, and how all of them do in the tool-workers."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pentad.contracts.ids import ID_RULE, is_identifier
from pentad.contracts.tool_servers import ServerReport, ToolServer
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.errors import SettingsError
from pentad.shared.presence.server_reports import reported_servers, worst_report
from pentad.shared.registries.registrations import REGISTERED_SERVERS, Registered
from pentad.shared.store.store import Store
from pentad.shared.tool_servers.server_file import MAX_SERVERS, servers_of
from pentad.shared.tool_servers.server_names import same_prefixes

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
_COMMANDS_OFF = (
    "a registered server that is a program would be started by the tool-workers, which PENTAD_MCP_COMMANDS=on allows: "
    "set it for the gateway and the tool-workers, or name the server in the file of PENTAD_MCP"
)


class ToolServerRegistry:
    """Changes the registry of MCP servers. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    ``commands``: whether programs may be registered.
    """

    def __init__(self, store: Store, *, commands: bool) -> None:
        self._store, self._commands = store, commands

    async def listing(self, *, operator: bool) -> list[dict[str, Any]]:
        """Return all servers with how they do. ``operator``: whether the caller may see what their programs write."""
        registered = {each.name: each for each in (await REGISTERED_SERVERS.read(self._store)).entries}
        reports = await reported_servers(self._store)
        return [
            _shown(name, registered.get(name), reports.get(name, ()), operator)
            for name in sorted(registered.keys() | reports.keys())
        ]

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add a server, or replace the registered one with its name; return how it stands, and whether it is new."""
        server, notes = _entry(body)
        if server.command is not None and not self._commands:
            raise ProblemError(403, _COMMANDS_OFF)
        reports = await reported_servers(self._store)
        of_file = sorted(name for name, each in reports.items() if any(r.source == "file" for r in each))
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_SERVERS.read(self._store)
            new = self._check(server, of_file, read)
            if await REGISTERED_SERVERS.write(self._store, read, server.name, server):
                shown = _shown(server.name, server, reports.get(server.name, ()), operator=True)
                return shown | {"warning": "; ".join(notes) or None}, new
        raise busy("others change the registry at the same time: try again")

    async def delete(self, name: str) -> None:
        """Remove a registered server; its tools are offered no more within two seconds."""
        for _ in range(_MAX_ATTEMPTS):
            read = await REGISTERED_SERVERS.read(self._store)
            if name not in {each.name for each in read.entries}:
                if any(each.source == "file" for each in (await reported_servers(self._store)).get(name, ())):
                    raise ProblemError(409, f"server {name} is of the file of PENTAD_MCP: it is removed there")
                raise missing("there is no such server")
            if await REGISTERED_SERVERS.write(self._store, read, name, None):
                return
        raise busy("others change the registry at the same time: try again")

    def _check(self, server: ToolServer, of_file: Sequence[str], read: Registered[ToolServer]) -> bool:
        """Return whether a server is new. Raises ``ProblemError`` (409) when it cannot have its name."""
        names = [each.name for each in read.entries]
        if server.name in of_file:
            raise ProblemError(409, f"server {server.name} is of the file of PENTAD_MCP: it is changed there")
        others = [*of_file, *(name for name in names if name != server.name)]
        if (other := same_prefixes([*others, server.name]).get(server.name)) is not None:
            raise ProblemError(409, f"its tools would be named like those of {other}: choose another name")
        new = server.name not in names
        if new and len(names) >= MAX_SERVERS:
            raise ProblemError(409, f"there are {MAX_SERVERS} registered servers already: delete one")
        return new


def _entry(body: Mapping[str, Any]) -> tuple[ToolServer, Sequence[str]]:
    """Return the server that a body names, in the words of a file, and notes. Raises ``ProblemError`` (422)."""
    fields = dict(body)
    name = fields.pop("name", None)
    if not isinstance(name, str) or not is_identifier(name):
        raise invalid(f"name: a registered server's name has {ID_RULE}")
    if "${" in str(body):
        raise invalid(
            "variables (${NAME}) are filled in where the file is, by `pentad mcp import FILE`; write what is each "
            "user's own as {{secret:NAME}}"
        )
    cwd = fields.get("cwd")
    if isinstance(cwd, str) and not PurePosixPath(cwd).is_absolute():
        raise invalid("cwd: a registered server's folder is a whole path: nobody knows beside what it would lie")
    try:
        found = servers_of({"mcpServers": {name: fields}}, _ROOT, lambda _: None)
    except SettingsError as error:
        raise invalid(str(error)[:_MAX_ERROR_CHARS]) from None
    if not found.servers:
        raise invalid("it is turned off: delete it instead")
    return found.servers[0], found.notes


_ROOT = Path("/")
"""Folder of entries without a file."""


def _shown(name: str, registered: ToolServer | None, reports: Sequence[ServerReport], operator: bool) -> dict[str, Any]:
    """Return a server as lists show it: in the worker where it does worst, and in how many it is ready."""
    if reports:
        shown = worst_report(reports).model_dump(mode="json")
    else:
        assert registered is not None
        report = ServerReport(
            name=name,
            source="registered",
            transport=registered.transport,
            place=registered.place,
            condition="connecting",
            since="",
            error="no tool-worker has told of it yet",
            secrets=tuple(registered.secrets),
        )
        shown = report.model_dump(mode="json") | {"condition": "unknown", "since": None}
    if not operator:
        shown["said"] = None
    ready = sum(each.condition == "ready" for each in reports)
    return shown | {"workers": len(reports), "ready": ready}
