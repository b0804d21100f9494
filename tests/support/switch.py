"""A stable address before Redis servers, as a proxy or a service's name is: what it leads to can be changed.

async with Switch(first.port) as switch:
    store = Store(switch.url)
    switch.lead_to(second.port)     # new connections go there; the open ones stay where they are
"""

import asyncio
from types import TracebackType


class Switch:
    """Forwards bytes between clients and the server that it led to when each of them connected."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self.opened = 0
        """Connections there have been."""

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    def lead_to(self, port: int) -> None:
        """From now on new connections go to this port."""
        self._target = port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        there = asyncio.create_task(_pipe(reader, to_server[1]))
        back = asyncio.create_task(_pipe(to_server[0], writer))
        self._pipes |= {there, back}
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for transport in (writer.transport, to_server[1].transport):
            transport.close()
        await asyncio.wait({there, back})
        self._pipes -= {there, back}

    async def __aenter__(self) -> "Switch":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for pipe in list(self._pipes):
            pipe.cancel()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (OSError, asyncio.CancelledError):
        writer.transport.abort()
