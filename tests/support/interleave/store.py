"""A store whose commands wait until the scheduler lets one happen: the interleaving points of a simulated process."""

import asyncio
from collections import deque
from random import Random
from typing import Any

from pentad.contracts.ids import rfc3339
from pentad.shared.store.script import Script
from pentad.shared.store.store import Store
from pentad.shared.store.trouble import Trouble
from pentad.shared.store.wire import Wire, Word
from tests.support.interleave.clockwork import VirtualLoop
from tests.support.interleave.server import Server

_LATE = 0.15
"""Share of the replies that are on their way for a while: a kill in between leaves a command without its reply."""


class SteppedWire(Wire):
    """Commands leave in the order in which they were issued, as the real wire's do."""

    def __init__(self, server: Server, loop: VirtualLoop, chance: Random) -> None:
        self.lossy = 0.0
        """Share of the commands whose reply is lost, half of them before they are executed."""
        self.dead = False
        self.opened = 1
        self._server, self._loop, self._chance = server, loop, chance
        self._issued: deque[tuple[asyncio.Future[Any], tuple[Word, ...]]] = deque()
        self._late: tuple[asyncio.Future[Any], Any] | None = None

    def ask(self, *command: Word) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.dead:
            future.cancel()
        else:
            self._issued.append((future, command))
        return future

    def ask_on(self, connection: int, *command: Word) -> asyncio.Future[Any]:
        if connection != self.opened:
            raise ConnectionError("the simulated connection was replaced")
        return self.ask(*command)

    def tell(self, *command: Word) -> None:
        self.ask(*command).add_done_callback(_ignore)

    @property
    def silence(self) -> float:
        return 0.0

    @property
    def has_work(self) -> bool:
        """Whether a command or a reply waits to happen."""
        return bool(self._issued) or self._late is not None

    def step(self) -> None:
        """Let one reply arrive, or execute one command."""
        if self._late is not None:
            (future, reply), self._late = self._late, None
            _settle(future, reply)
            return
        future, command = self._issued.popleft()
        lost = self._chance.random() < self.lossy
        executed = not lost or self._chance.random() < 0.5
        reply = self._server.execute(command, self._loop.now_ms) if executed else None
        if lost:
            reply = ConnectionError("the simulated connection broke")
        if self._chance.random() < _LATE:
            self._late = (future, reply)
        else:
            _settle(future, reply)

    def break_off(self) -> None:
        """End the connection, as in a failover: sent commands may have been executed, and no reply comes."""
        self.renew()
        lost = [future for future, _ in self._issued]
        self._issued.clear()
        if self._late is not None:
            lost.append(self._late[0])
            self._late = None
        for future in lost:
            _settle(future, ConnectionError("the simulated connection broke"))

    def renew(self) -> None:
        """Use another connection from the next command on."""
        self.opened += 1

    async def close(self) -> None:
        """Drop all waiting commands, and refuse new ones."""
        self.die()

    def die(self) -> None:
        """As `close`, at once."""
        self.dead = True
        for future, _ in self._issued:
            future.cancel()
        self._issued.clear()
        self._late = None


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if future.done():
        return
    if isinstance(reply, Exception):
        future.set_exception(reply)
    else:
        future.set_result(reply)


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


class SteppedStore(Store):
    """One process's way to Redis."""

    def __init__(self, server: Server, loop: VirtualLoop, scripts: dict[str, Script], chance: Random) -> None:
        self.url = "redis://127.0.0.1:1/0"
        self.scripts = scripts
        self._trouble = Trouble()
        self._clock = (0, float("-inf"))
        self.server = server
        self.wire = self._wire = SteppedWire(server, loop, chance)

    def listen(self, stream: str, after: str, block_ms: int) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._news(block_ms, "XREAD", "COUNT", 1, "STREAMS", stream, after))

    async def _news(self, block_ms: int, *read: Word) -> Any:
        found = await self.wire.ask(*read)
        if not found:
            opened = self.wire.opened
            await self.server.bell.wait(block_ms / 1000)
            if self.wire.opened != opened:  # the real one waits on its connection
                raise ConnectionError("the simulated connection broke")
            found = await self.wire.ask(*read)
        return found

    async def now(self) -> str:
        return rfc3339(await self.clock())

    async def close(self) -> None:
        """The end of a process that stopped in order."""
        self.wire.die()
