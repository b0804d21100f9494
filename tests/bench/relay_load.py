"""How many talking tasks one gateway relays, and what idle sessions beside them cost."""

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pentad.shared.event_loop import cancel_all
from tests.bench.common import Cpu, Effort, Row, quantile
from tests.bench.processes import module, six
from tests.bench.relay_feed import session_name
from tests.bench.stamping_model import stamps
from tests.bench.websocket import Socket
from tests.support.processes.crew import rss
from tests.support.processes.system import ROOT

TASKS, RATE, IDLE = 200, 50, 5_000
PING_EVERY_S = 20.0
"""Seconds between two pings of a page, as in ``/pentad.js``."""
_PING = b'{"type":"ping"}'


class Audience:
    """The clients of the talking tasks. Of one in ten the delays are noted, of all the last frame."""

    def __init__(self) -> None:
        self.frames = 0
        self.late: list[float] = []
        self.last: dict[int, bytes] = {}
        self._sockets: list[Socket] = []

    async def join(self, url: str, number: int) -> None:
        """Listen to one task."""

        def on_text(text: bytes) -> None:
            self.frames += 1
            self.last[number] = text
            if number % 10 == 0:
                now = time.monotonic_ns()
                self.late += [(now - at) / 1e6 for at in stamps(text)[-1:]]

        self._sockets.append(await Socket.open(url, session_name(number), on_text))

    def heard(self, newest: int) -> int:
        """How many have seen a token as new as this."""
        return sum(1 for text in self.last.values() if (stamps(text) or [0])[-1] >= newest)

    def leave(self) -> None:
        """Hang up."""
        for socket in self._sockets:
            socket.close()


class IdleConsoles:
    """Pages of the console in which nothing happens: each has a WebSocket, and sends a ping as `/pentad.js` does."""

    def __init__(self) -> None:
        self._sockets: list[Socket] = []
        self._pinging: asyncio.Task[None] | None = None
        self.pongs = 0

    async def open(self, url: str, number: int) -> None:
        """Open so many pages, each of a session of its own."""
        for n in range(number):
            self._sockets.append(await Socket.open(url, f"idle-{n}", self._hear))
        self._pinging = asyncio.create_task(self._ping())

    def _hear(self, text: bytes) -> None:
        self.pongs += b'"pong"' in text

    async def _ping(self) -> None:
        """Send the pings of all pages, spread over the time between two of one page."""
        rounds = 100
        for n in itertools.count():
            for socket in self._sockets[n % rounds :: rounds]:
                socket.send(_PING)
            await asyncio.sleep(PING_EVERY_S / rounds)

    async def close(self) -> None:
        """Leave all pages."""
        if self._pinging is not None:
            await cancel_all([self._pinging])
        for socket in self._sockets:
            socket.close()


@asynccontextmanager
async def _feeder(url: str) -> AsyncIterator[tuple[int, Callable[[float], Awaitable[int]]]]:
    """The writer of the deltas: its process id, and what lets it talk for some seconds."""
    command = [sys.executable, "-m", "tests.bench.relay_feed", url, str(TASKS), str(RATE)]
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    async def talk(seconds: float) -> int:
        stdin.write(f"{seconds}\n".encode())
        return int(await stdout.readline())

    try:
        await stdout.readline()
        yield process.pid, talk
    finally:
        stdin.close()
        await process.wait()


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[int]:
    """The bare relay before a sink that throws everything away."""
    loop = asyncio.get_running_loop()
    sink = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = sink.sockets[0].getsockname()[1]
    async with module("tests.bench.bare_relay", url, str(port), str(TASKS)) as (pid, _):
        yield pid
    sink.close()


@dataclass(frozen=True, slots=True)
class _Load:
    """Everything that takes part in relaying many tasks."""

    pids: Mapping[str, Sequence[int]]
    talk: Callable[[float], Awaitable[int]]
    audience: Audience
    seconds: float

    async def floor(self, url: str) -> float:
        """Cores that a bare relay takes for the same."""
        async with _bare(url) as pid:
            watch = Cpu({"bare": [pid]})
            await self.talk(self.seconds)
            return watch.spent()["bare"] / watch.wall()

    async def quiet(self) -> float:
        """Cores of the gateway while nobody talks."""
        watch = Cpu(self.pids)
        await asyncio.sleep(self.seconds / 3)
        return watch.spent()["gateway"] / watch.wall()

    async def row(self, name: str, floor: float) -> Row:
        """Cores of the gateway while all talk."""
        self.audience.frames, self.audience.late = 0, []
        watch, own, begun = Cpu(self.pids), time.process_time(), time.monotonic_ns()
        await self.talk(self.seconds)
        wall, spent, own = watch.wall(), watch.spent(), time.process_time() - own
        await asyncio.sleep(0.3)
        heard = self.audience.heard(begun + int((wall - 0.5) * 1e9))
        core, late = spent["gateway"] / wall, quantile(self.audience.late, 0.5)
        value = f"{core:.2f} core ({self.audience.frames / wall:,.0f} frames/s, newest token {late:.0f} ms old)"
        beside = ", ".join(f"{n} {spent[n] / wall:.2f}" for n in ("redis", "writer"))
        beside = f"bare relay {floor:.2f} core; beside: {beside}, clients {own / wall:.2f}"
        numbers = {"core": core, "late_ms": late, "floor_core": floor, "heard": float(heard)}
        return Row(f"relay: {name}", value, beside, "less than one core", core < 1 and heard == TASKS, numbers)


async def load_rows(effort: Effort) -> list[Row]:
    """The rows of many tasks at once."""
    bound = {"PENTAD_CONNECTIONS_PER_ADDRESS": str(2 * (IDLE + TASKS))}
    async with (
        six(0, "http://127.0.0.1:9/v1", ("gateway",), **bound) as running,
        _feeder(running.redis_url) as (writer, talk),
    ):
        pids = {**running.ours, "redis": running.beside["redis"], "writer": [writer]}
        load = _Load(pids, talk, Audience(), float(effort(10, 1)))
        floor = await load.floor(running.redis_url)
        for number in range(TASKS):
            await load.audience.join(running.url, number)
        await talk(0.5)
        few = await load.quiet()
        rows = [await load.row(f"{TASKS} tasks x {RATE} tokens/s, one gateway", floor)]
        idle, number, [gateway] = IdleConsoles(), effort(IDLE, 500), running.ours["gateway"]
        before = rss(gateway)
        await idle.open(running.url, number)
        many = await load.quiet()
        each = (rss(gateway) - before) * 1e6 / 1024 / number
        rows.append(await load.row(f"the same with {number:,} idle consoles", floor))
        name = f"relay: the gateway with {TASKS} quiet sessions and {number:,} idle consoles"
        value, beside = f"{many:.3f} core, {each:.0f} KiB a console", f"without consoles {few:.3f} core"
        rows.append(Row(name, value, beside, numbers={"core": many, "kib": each, "pongs": float(idle.pongs)}))
        load.audience.leave()
        await idle.close()
    return rows
