"""The tools of MCP servers as a source of a worker: servers of the operator's file, and those that are registered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from time import time_ns
from types import MappingProxyType
from typing import TYPE_CHECKING

from pentad.contracts.ids import rfc3339
from pentad.contracts.tool_servers import ServerReport, ServerSource, ToolServer
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.errors import SettingsError
from pentad.shared.outbound.address_guard import AddressGuard
from pentad.shared.registries.registrations import REGISTERED_SERVERS
from pentad.shared.secrets.user_secrets import secrets_of
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.tool_servers.server_file import ServerFile, read_server_file
from pentad.shared.tool_servers.server_names import same_prefixes

if TYPE_CHECKING:
    from pentad.services.tool_worker.servers import served

log = logging.getLogger(__name__)

_START_S = 2.0
"""Seconds that the start of a worker waits for servers: tools of slower ones come while it runs."""
_SERVED = "pentad.services.tool_worker.servers.served"
"""The module that imports the SDK, which takes half a second: only where there is a server."""
_NO_PACKAGE = "the package mcp is not installed where the tool-worker runs: pip install 'pentad[mcp]'"
_COMMANDS_OFF = (
    "registered servers that are programs are not started here: set PENTAD_MCP_COMMANDS=on for the tool-workers, or "
    "name the server in the file of PENTAD_MCP"
)


class ServerTools:
    """A source of tools. Raises ``SettingsError`` for a file or for secrets that cannot be used."""

    quick = False

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._file = ServerFile(()) if settings.pentad_mcp is None else read_server_file(settings.pentad_mcp)
        self._secrets = secrets_of(settings)
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({})
        self._served: dict[str, served.ServedServer] = {}
        self._refused: tuple[ServerReport, ...] = ()
        self._module: type[served.ServedServer] | None = None
        self._changed: Callable[[], None] = lambda: None
        self._registered: Sequence[ToolServer] = ()
        self._wanted = asyncio.Event()
        self._stopping: set[asyncio.Task[None]] = set()

    async def start(self, changed: Callable[[], None]) -> None:
        """Begin to connect to the servers, and wait a moment for those that are quick."""
        for note in self._file.notes:
            log.info("PENTAD_MCP: %s", note)
        if self._file.turned_off:
            log.info("PENTAD_MCP: turned off in the file: %s", ", ".join(self._file.turned_off))
        await self._serve()
        if self._file.servers and self._module is None:
            raise SettingsError(f"PENTAD_MCP is set, and {_NO_PACKAGE}")
        if self._served:
            tried = [asyncio.create_task(each.tried()) for each in self._served.values()]
            _, late = await asyncio.wait(tried, timeout=_START_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._changed = changed

    async def follow(self) -> None:
        """Serve the servers that are registered, and take up each change. Runs for ever, between start and stop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(REGISTERED_SERVERS.keep_following(self._store, self._take_registered))
            tasks.create_task(self._keep_serving())

    async def stop(self, grace_s: float) -> None:
        """End all connections, and the programs that were started for them."""
        await asyncio.gather(*(each.stop() for each in self._served.values()), *self._stopping)
        self._served.clear()

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Make one attempt of a call. Every failure is an outcome; cancelling it tells the server."""
        for each in self._served.values():
            if invocation.tool in each.offered.specs:
                return await each.call(invocation, on_progress)
        return ToolOutcome("error", f"no MCP server has {invocation.tool!r} any more")

    def reports(self) -> Sequence[ServerReport]:
        """Return how all servers do."""
        return [*(each.report() for each in self._served.values()), *self._refused]

    def alive(self) -> bool:
        """Whether the tasks that keep the servers run."""
        return all(each.alive() for each in self._served.values())

    # Which servers there are

    def _take_registered(self, servers: Sequence[ToolServer]) -> None:
        self._registered = servers
        self._wanted.set()

    async def _keep_serving(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._serve()

    async def _serve(self) -> None:
        """Serve the servers that there are now: unchanged ones go on as they are."""
        wanted, self._refused = self._wanted_servers()
        if wanted and self._module is None:
            self._module = await self._import()
            if self._module is None:
                self._refused += tuple(_refusal(server, source, _NO_PACKAGE) for server, source in wanted.values())
                return
        for name, each in list(self._served.items()):
            if name not in wanted or wanted[name] != (each.server, each.source):
                stopping = asyncio.create_task(self._served.pop(name).stop())
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)
        for name in wanted.keys() - self._served.keys():
            assert self._module is not None
            server, source = wanted[name]
            self._served[name] = self._module(server, source, self._parts(source), self._look)
            self._served[name].start()
        self._look()

    def _wanted_servers(self) -> tuple[dict[str, tuple[ToolServer, ServerSource]], tuple[ServerReport, ...]]:
        """Return the servers to serve, by name, and reports of those that this worker may not use.

        Those of the file go first, so that no registered one takes the name of one of their tools.
        """
        wanted: dict[str, tuple[ToolServer, ServerSource]] = {each.name: (each, "file") for each in self._file.servers}
        registered = [each for each in self._registered if each.name not in wanted]
        alike = same_prefixes([*wanted, *(each.name for each in registered)])
        refused = list[ServerReport]()
        for server in registered:
            if server.name in alike:
                why = f"its tools would be named like those of {alike[server.name]!r}: register it under another name"
            elif server.command is not None and self._settings.pentad_mcp_commands == "off":
                why = _COMMANDS_OFF
            else:
                wanted[server.name] = server, "registered"
                continue
            refused.append(_refusal(server, "registered", why))
        return wanted, tuple(refused)

    async def _import(self) -> type[served.ServedServer] | None:
        """Import the SDK, beside the event loop; None where it is not installed."""
        try:
            module = await asyncio.to_thread(import_module, _SERVED)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            return None
        made: type[served.ServedServer] = module.ServedServer
        return made

    def _parts(self, source: ServerSource) -> served.ServerParts:
        from pentad.services.tool_worker.servers.served import ServerParts

        guard = AddressGuard(self._settings.pentad_web_allow) if source == "registered" else None
        return ServerParts(self._secrets, guard, self._settings, self._store)

    def _look(self) -> None:
        """Take up the tools that servers have now."""
        tools = {name: spec for each in self._served.values() for name, spec in each.offered.specs.items()}
        if tools != self.tools:
            self.tools = MappingProxyType(dict(sorted(tools.items())))
            self._changed()


def _refusal(server: ToolServer, source: ServerSource, why: str) -> ServerReport:
    return ServerReport(
        name=server.name,
        source=source,
        transport=server.transport,
        place=server.place,
        condition="refused",
        since=rfc3339(time_ns() // 1_000_000),
        error=why,
        secrets=tuple(server.secrets),
    )
