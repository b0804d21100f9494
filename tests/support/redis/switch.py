"""A stable TCP address in front of servers that take turns, as a load balancer or a Kubernetes Service has it.

    with RedisServer() as old, RedisServer() as new, Switch(old.port) as switch:
        store = Store(switch.url)
        switch.point_at(new.port)               # open connections end, new ones reach the new server
        switch.point_at(new.port, cut=False)    # open connections stay with the old one, as conntrack keeps them
        switch.hold()                           # nothing passes, in either direction, until release()
        switch.lose_replies()                   # commands reach the server, their replies are lost, until release()

It runs in a thread of its own, so that it serves tests of any kind and is called from any thread.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from tests.support.accepting import close_port, connections_settled

_CHUNK = 65_536
_CALL_S = 10.0


class Switch:
    """Passes bytes between whoever connects to ``port`` and the loopback port that it points at."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.port = port
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._wires: set[asyncio.Task[None]] = set()
        self._open: asyncio.Event
        self._losing = False
        self._started = threading.Event()
        self._error: OSError | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def target(self) -> int:
        """The port that new connections reach."""
        return self._target

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._wires)

    def start(self) -> None:
        """Listen. Raises ``OSError`` when the port is taken."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End every connection and stop listening."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CALL_S)

    def point_at(self, target: int, cut: bool = True) -> None:
        """New connections reach this port. ``cut``: open ones end now; else they stay where they are."""
        self._target = target
        if cut:
            self.cut()

    def cut(self) -> None:
        """End every open connection."""
        self._call(self._cut)

    def hold(self) -> None:
        """Let nothing pass: connections stay open, and new ones are accepted and wait."""
        self._call(self._open.clear)

    def lose_replies(self) -> None:
        """Let commands pass and throw their replies away; `cut` then, or their senders wait for ever."""
        self._losing = True

    def release(self) -> None:
        """End a `hold` or `lose_replies`."""
        self._losing = False
        self._call(self._open.set)

    def _call(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(_CALL_S):
            raise RuntimeError("the switch does not answer: was it started, and not closed?")

    def _cut(self) -> None:
        for wire in self._wires:
            wire.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(self._listen())
        except OSError as error:
            self._error = error
            self._started.set()
            self._loop.close()
            return
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(close_port(server))
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.run_until_complete(connections_settled())
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        self._open = asyncio.Event()
        self._open.set()
        server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = asyncio.current_task()
        assert wire is not None
        self._wires.add(wire)
        try:
            await self._open.wait()
            with suppress(OSError, asyncio.CancelledError):  # a cut, or a server that is away: the connection ends
                await self._pass(reader, writer)
        finally:
            self._wires.discard(wire)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        ways = [
            asyncio.ensure_future(self._one_way(reader, server_writer, replies=False)),
            asyncio.ensure_future(self._one_way(server_reader, writer, replies=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server_writer.transport.abort()  # first: what follows may be cut short by a second cancel
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _one_way(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, replies: bool) -> None:
        while part := await source.read(_CHUNK):
            await self._open.wait()
            if replies and self._losing:
                continue
            sink.write(part)
            await sink.drain()

    def __enter__(self) -> "Switch":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> "Switch":
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
