"""One MCP server as a worker serves it: the connection that lists its tools, and those of users with own secrets."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from time import monotonic, time_ns

from pydantic_core import to_json

from pentad.contracts.ids import rfc3339
from pentad.contracts.tool_servers import ServerReport, ServerSource, ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers.connection import ServerConnection
from pentad.services.tool_worker.servers.tool_list import NO_TOOLS, OfferedTools, offered_tools
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.outbound.address_guard import AddressGuard
from pentad.shared.secrets.secret_store import SecretOwner
from pentad.shared.secrets.user_secrets import UserSecrets
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

MAX_CONNECTIONS = 32
"""Connections to one server, of users with secrets of their own."""
_IDLE_S = 600.0
"""Seconds after which a connection of a user that nobody uses is closed."""
_LOOK_S = 5.0
"""Seconds between two looks at secrets and at connections that are not used."""
_NAMED_TOOLS = 3
"""Tools that are not offered, of which the log tells the reason."""
_KEPT_S = 60.0
"""Seconds for which the tools of a server that is away are offered: it may be back before they are called."""


_MISFIT = "the secret {} has characters that cannot stand where it is needed, such as line ends: set it anew"


@immutable
class ServerParts:
    """The parts that servers of one worker share."""

    secrets: UserSecrets
    guard: AddressGuard | None
    """Checks addresses of servers; None for those of the operator's own file."""
    longest_s: float
    """Seconds that a call may take."""


class ServedServer:
    """A server. ``changed``: called when its tools have become others."""

    def __init__(
        self, server: ToolServer, source: ServerSource, parts: ServerParts, changed: Callable[[], None]
    ) -> None:
        self.server, self.source = server, source
        self._parts, self._changed = parts, changed
        self._needs = server.secrets
        self.offered: OfferedTools = NO_TOOLS
        self._lister: ServerConnection | None = None
        self._listing: str | None = None
        """Digest of the secrets that the list is read with."""
        self._connections: dict[str, ServerConnection] = {}
        """Connections by the digest of their secrets; that of the list is among them."""
        self._trouble: str | None = None
        """Why there is no connection for the list."""
        self._since = rfc3339(time_ns() // 1_000_000)
        self._lost_at: float | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to connect."""
        if not self._needs:
            self._list_with({})
        self._keeper = asyncio.create_task(self._keep())

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended; at once where the secrets for it are not there."""
        if self._lister is not None:
            await self._lister.tried()

    def alive(self) -> bool:
        """Whether the task that keeps the server runs."""
        return self._keeper is not None and not self._keeper.done()

    async def stop(self) -> None:
        """End all connections."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        metrics.mcp_ready.labels(self.server.name).set(0)
        await asyncio.gather(*(each.stop() for each in self._connections.values()), *self._closing)

    async def call(self, invocation: ToolInvocation, on_progress: OnProgress) -> ToolOutcome:
        """Make a call with the secrets of whom it is for. Every failure is an outcome."""
        tool, context = self.offered.own_names.get(invocation.tool), invocation.context
        if tool is None:
            return ToolOutcome("error", f"the server {self.server.name!r} has no {invocation.tool!r} any more")
        values: dict[str, str] = {}
        if self._needs:
            try:
                found = await self._parts.secrets.find(context.tenant_id, context.user_id, self._needs)
            except OutageError as error:
                return ToolOutcome("error", f"{invocation.tool} was not called: {error}")
            if found.missing:
                return ToolOutcome("error", _missing(invocation, found.missing))
            if (name := self.server.misfit(found.values)) is not None:
                return ToolOutcome("error", f"{invocation.tool} was not called: {_MISFIT.format(name)}")
            values = found.values
        connection = self._connection(values)
        if connection is None:
            text = (
                f"the server {self.server.name!r} is used by {MAX_CONNECTIONS} others at this moment: try again later"
            )
            return ToolOutcome("error", text)
        return await connection.call(
            tool, invocation.args, invocation.timeout_s, on_progress, invocation.resumed, invocation.files_of
        )

    def report(self) -> ServerReport:
        """Return how the server does. Nothing in it is secret."""
        lister, offered = self._lister, self.offered
        return ServerReport(
            name=self.server.name,
            source=self.source,
            transport=self.server.transport,
            place=self.server.place,
            condition="no_secret" if lister is None else lister.condition,
            since=self._since if lister is None else lister.since,
            error=self._trouble if lister is None else lister.error,
            said=None if lister is None else lister.said,
            tools=len(offered.specs),
            left_out=offered.left_out,
            left_out_count=offered.left_out_count,
            secrets=tuple(self._needs),
            protocol=None if lister is None else lister.protocol,
            connections=len(self._connections),
        )

    # Connections

    def _connection(self, values: dict[str, str]) -> ServerConnection | None:
        """Return the connection of these secrets; None when there are too many that are used."""
        key = _digest(values)
        found = self._connections.get(key)
        if found is not None:
            return found
        if len(self._connections) >= MAX_CONNECTIONS and not self._close_one():
            return None
        return self._connect(key, values, lambda: None)

    def _connect(self, key: str, values: dict[str, str], changed: Callable[[], None]) -> ServerConnection:
        server = self.server.with_secrets(values) if values else self.server
        guard, longest_s = self._parts.guard, self._parts.longest_s
        connection = ServerConnection(server, changed, guard=guard, hidden=values, longest_s=longest_s)
        self._connections[key] = connection
        connection.start()
        return connection

    def _close(self, key: str) -> None:
        closing = asyncio.create_task(self._connections.pop(key).stop())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _close_one(self) -> bool:
        """Close the connection that was not used for longest; return whether there was one."""
        idle = [
            (each.used_at, key) for key, each in self._connections.items() if not each.calls and key != self._listing
        ]
        if idle:
            self._close(min(idle)[1])
        return bool(idle)

    # The list of tools

    def _list_with(self, values: dict[str, str]) -> None:
        """Read the list of tools over the connection of these secrets."""
        key = _digest(values)
        if self._listing is not None and self._listing in self._connections:
            self._close(self._listing)
        if key in self._connections:  # one of a user's: it does not tell of its list
            self._close(key)
        self._listing, self._trouble = key, None
        self._lister = self._connect(key, values, self._look)
        self._look()

    def _look(self) -> None:
        """Take up what the connection of the list has found."""
        lister = self._lister
        if lister is None:
            return
        metrics.mcp_ready.labels(self.server.name).set(lister.condition == "ready")
        if lister.condition == "ready":
            self._lost_at = None
            self._offer(offered_tools(self.server, lister.listed, cut=lister.cut))
        elif self._lost_at is None:
            self._lost_at = monotonic()

    def _offer(self, offered: OfferedTools) -> None:
        if offered == self.offered:
            return
        if offered.left_out:
            said = "; ".join(f"{each.tool}: {each.why}" for each in offered.left_out[:_NAMED_TOOLS])
            line = "%d tools of the MCP server %r are not offered; `pentad mcp` says which: %s"
            _say.warning(f"{self.server.name} {said}", line, offered.left_out_count, self.server.name, said)
        self.offered = offered
        self._changed()

    async def _keep(self) -> None:
        """Look for secrets, close what is not used, and withdraw the tools of a server that stays away."""
        while True:
            if self._needs:
                with suppress(OutageError):
                    await self._find_secrets()
            now = monotonic()
            for key, each in list(self._connections.items()):
                if key != self._listing and not each.calls and now - each.used_at > _IDLE_S:
                    self._close(key)
            if self._lost_at is not None and now - self._lost_at > _KEPT_S:
                self._offer(NO_TOOLS)
            await asyncio.sleep(_LOOK_S)

    async def _find_secrets(self) -> None:
        """Connect for the list as soon as there are secrets for it, and anew when they are others."""
        secrets = self._parts.secrets
        named = self.server.list_as
        owner = _owner(named) if named is not None else await secrets.owner_of(self._needs)
        found = None if owner is None else await secrets.find(owner.tenant, owner.user, self._needs)
        if found is not None and not found.missing and (name := self.server.misfit(found.values)) is not None:
            self._trouble = _MISFIT.format(name)
            return
        if found is not None and not found.missing:
            if self._listing != _digest(found.values):
                self._list_with(found.values)
            return
        whose = "nobody" if named is None else named
        self._trouble = f"{whose} has all of the secrets that it needs: {', '.join(self._needs)}"
        if named is not None:
            self._trouble = f"{named} does not have all of the secrets that it needs: {', '.join(self._needs)}"
        if self._lister is not None and self._listing is not None:
            self._close(self._listing)
            self._lister = self._listing = None
            self._lost_at = monotonic()


def _owner(text: str) -> SecretOwner:
    tenant, _, user = text.partition("/")
    return SecretOwner(tenant, user or None)


def _digest(values: dict[str, str]) -> str:
    return sha256(to_json(sorted(values.items()))).hexdigest()


def _missing(invocation: ToolInvocation, names: tuple[str, ...]) -> str:
    context = invocation.context
    whose = f"tenant {context.tenant_id}" if context.user_id is None else f"user {context.user_id}"
    listed = ", ".join(names)
    return (
        f"{invocation.tool} was not called: it needs the secret {listed}, and {whose} has none; an operator can set it "
        "by POST /v1/secrets"
    )
