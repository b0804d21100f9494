"""Deltas from the model to a WebSocket: what the way adds, and what many cost."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from tests.bench.common import Effort, Row, quantile
from tests.bench.processes import Running, model, six
from tests.bench.relay_load import load_rows
from tests.bench.stamping_model import stamps
from tests.bench.websocket import Socket

_MESSAGE = b'{"type":"message","content":"talk"}'
_WAIT_S = 20.0


@dataclass
class Delays:
    """ms from the model's write to the client's sight."""

    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    """Of the last token: the end of the step."""
    between: list[float] = field(default_factory=list)

    def take(self, written: list[int], seen: int, first: bool, last: bool) -> None:
        """Note a piece that holds tokens written at these times."""
        late = [(seen - at) / 1e6 for at in written]
        if first:
            self.first.append(late.pop(0))
        if last and late:
            self.last.append(late.pop())
        self.between += late


class _Listener:
    """One answer as it arrives over the WebSocket."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._pieces: list[tuple[list[int], int]] = []
        self.done = asyncio.Event()

    def __call__(self, text: bytes) -> None:
        if b'"type":"content"' in text:
            self._pieces.append((stamps(text), time.monotonic_ns()))
        elif b'"type":"message"' in text:
            self._finish(stamps(text)[-1])
        elif b'"type":"task_end"' in text:
            self.done.set()

    def _finish(self, last: int) -> None:
        for number, (written, seen) in enumerate(self._pieces):
            self._delays.take(written, seen, number == 0, last in written)
        self._pieces.clear()


async def _turns(running: Running, turns: int) -> Delays:
    delays = Delays()
    listener = _Listener(delays)
    socket = await Socket.open(running.url, "relay", listener)
    for _ in range(turns):
        listener.done.clear()
        socket.send(_MESSAGE)
        await asyncio.wait_for(listener.done.wait(), _WAIT_S)
    socket.close()
    return delays


class _Direct(asyncio.Protocol):
    """Reads the model's answers with nothing between: the floor."""

    def __init__(self) -> None:
        self.delays = Delays()
        self._first = True
        self._done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self) -> None:
        self._first = True
        self._done.clear()
        self._transport.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nContent-Length: 2\r\n\r\n{}")
        await asyncio.wait_for(self._done.wait(), _WAIT_S)

    def data_received(self, data: bytes) -> None:
        end = data.endswith(b"\r\n0\r\n\r\n")
        if written := stamps(data):
            self.delays.take(written, time.monotonic_ns(), self._first, end)
            self._first = False
        if end:
            self._done.set()


async def _directly(url: str, turns: int) -> Delays:
    where = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, direct = await loop.create_connection(_Direct, where.hostname or "", where.port or 80)
    for _ in range(turns):
        await direct.ask()
    return direct.delays


async def _delay_rows(effort: Effort) -> list[Row]:
    name = "tests.bench.stamping_model"
    async with (
        model("--tokens", str(effort(10, 5)), "--every", "20", name=name) as (pid, url),
        six(pid, url) as running,
    ):
        await _turns(running, 5)
        ours = await _turns(running, effort(60, 8))
        floor = await _directly(url, effort(60, 8))
    return [
        _delay("first delta, model to client, p50", ours.first, floor.first, "at most 5 ms added"),
        _delay("end of the step, model to client, p50", ours.last, floor.last, "at most 5 ms added"),
        _delay("deltas between (coalesced over 40 ms), p50", ours.between, floor.between, ""),
    ]


def _delay(name: str, ours: list[float], floor: list[float], promise: str) -> Row:
    here, least = quantile(ours, 0.5), quantile(floor, 0.5)
    numbers = {"p50_ms": here, "p95_ms": quantile(ours, 0.95), "floor_ms": least}
    kept = here - least <= 5 if promise else None
    value = f"{here:.2f} ms (p95 {numbers['p95_ms']:.1f})"
    return Row(f"relay: {name}", value, f"the model read directly {least:.2f} ms", promise, kept, numbers)


async def run(effort: Effort) -> list[Row]:
    """The relay's rows."""
    return [*await _delay_rows(effort), *await load_rows(effort)]
