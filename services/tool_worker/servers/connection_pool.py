"""The connections of a worker to one server: one for each set of secrets, and for each user who has signed in."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from time import monotonic

from pydantic_core import to_json

from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.connection import ServerConnection
from pentad.services.tool_worker.servers.links import Bearer
from pentad.shared.outbound.address_guard import AddressGuard
from pentad.shared.secrets.secret_store import SecretOwner

MAX_CONNECTIONS = 32
"""Connections to one server, of users with secrets of their own."""
_IDLE_S = 600.0
"""Seconds after which a connection of a user that nobody uses is closed."""


class ConnectionPool:
    """The connections to one server, by whose they are. ``longest_s``: seconds that a call may take."""

    def __init__(self, server: ToolServer, guard: AddressGuard | None, longest_s: float) -> None:
        self._server, self._guard, self._longest_s = server, guard, longest_s
        self._connections: dict[str, ServerConnection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.listing: str | None = None
        """Key of the connection that reads the list of tools: it is not closed when nobody calls."""

    def __len__(self) -> int:
        return len(self._connections)

    def find(self, key: str) -> ServerConnection | None:
        """Return a connection; None where there is none."""
        return self._connections.get(key)

    def get(self, key: str, values: dict[str, str], bearer: Bearer | None) -> ServerConnection | None:
        """Return a connection, made where there is none; None when there are too many that are used."""
        found = self._connections.get(key)
        if found is not None:
            return found
        if len(self._connections) >= MAX_CONNECTIONS and not self._close_one():
            return None
        return self.connect(key, values, lambda: None, bearer)

    def connect(
        self, key: str, values: dict[str, str], changed: Callable[[], None], bearer: Bearer | None
    ) -> ServerConnection:
        """Begin a connection with these secrets, or as who has signed in. ``changed``: see `ServerConnection`."""
        connection = ServerConnection(
            self._server.with_secrets(values) if values else self._server,
            changed,
            guard=self._guard,
            bearer=bearer,
            hidden=values,
            longest_s=self._longest_s,
        )
        self._connections[key] = connection
        connection.start()
        return connection

    def close(self, key: str) -> None:
        """End a connection, if there is one."""
        found = self._connections.pop(key, None)
        if found is not None:
            closing = asyncio.create_task(found.stop())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def close_idle(self) -> None:
        """End the connections that nobody has used for long."""
        now = monotonic()
        for key, each in list(self._connections.items()):
            if key != self.listing and not each.calls and now - each.used_at > _IDLE_S:
                self.close(key)

    async def stop(self) -> None:
        """End all connections."""
        await asyncio.gather(*(each.stop() for each in self._connections.values()), *self._closing)

    def _close_one(self) -> bool:
        """End the connection that was not used for longest; return whether there was one."""
        idle = [
            (each.used_at, key) for key, each in self._connections.items() if not each.calls and key != self.listing
        ]
        if idle:
            self.close(min(idle)[1])
        return bool(idle)


def connection_key(values: dict[str, str], owner: SecretOwner | None = None) -> str:
    """Return what tells connections apart: their secrets, and whose token they send. It shows neither."""
    return sha256(to_json([sorted(values.items()), None if owner is None else owner.folder])).hexdigest()
