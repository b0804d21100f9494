"""What a protocol of others adds: the first delta over OpenAI's, AG-UI's and A2A's streams beside the WebSocket's."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.bench.common import Effort, Row, quantile
from tests.bench.processes import Running, model, six
from tests.bench.stamping_model import stamps
from tests.bench.websocket import Socket

_WAIT_S = 20.0
_MESSAGE = b'{"type":"message","content":"talk","task_id":"new"}'
_USER = {"role": "user", "content": "talk"}
Asked = tuple[str, Mapping[str, Any], Mapping[str, str]]
"""Path, body and headers of a request whose answer streams."""


def _openai() -> Asked:
    session = {"X-Pentad-Session": f"bench-{uuid4().hex}"}
    return "/openai/v1/chat/completions", {"model": "pentad", "stream": True, "messages": [_USER]}, session


def _agui() -> Asked:
    named = {"threadId": f"bench-{uuid4().hex}", "runId": uuid4().hex}
    empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return "/agui", named | empty | {"messages": [_USER | {"id": "1"}]}, {}


def _a2a() -> Asked:
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "talk"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    return "/a2a", call, {"A2A-Version": "1.0"}


_FACES: Mapping[str, Callable[[], Asked]] = {"OpenAI chat completions": _openai, "AG-UI": _agui, "A2A": _a2a}


async def _streamed(url: str, asked: Asked) -> float:
    """ms from the model's write of the first token to its arrival in a streamed answer."""
    path, body, headers = asked
    where, data = urlsplit(url), json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: {where.netloc}", "Content-Type: application/json", "Connection: close"]
    lines += [f"Content-Length: {len(data)}", *(f"{name}: {value}" for name, value in headers.items())]
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    delay = None
    async with asyncio.timeout(_WAIT_S):
        while piece := await reader.read(65_536):
            if delay is None and (written := stamps(piece)):
                delay = (time.monotonic_ns() - written[0]) / 1e6
    writer.close()
    if delay is None:
        raise RuntimeError(f"{path} streamed no token")
    return delay


class _FirstDelta:
    """The first delta of each turn of a WebSocket."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.done = asyncio.Event()
        self._waits = True

    def __call__(self, text: bytes) -> None:
        if self._waits and b'"type":"content"' in text:
            self.delays.append((time.monotonic_ns() - stamps(text)[0]) / 1e6)
            self._waits = False
        elif b'"type":"task_end"' in text:
            self._waits = True
            self.done.set()


async def _measured(running: Running, turns: int) -> dict[str, list[float]]:
    """All faces in turn, so that what the machine does besides meets each."""
    first = _FirstDelta()
    socket = await Socket.open(running.url, f"bench-{uuid4().hex}", first)
    found: dict[str, list[float]] = {name: [] for name in _FACES}
    for _ in range(turns):
        first.done.clear()
        socket.send(_MESSAGE)
        await asyncio.wait_for(first.done.wait(), _WAIT_S)
        for name, ask in _FACES.items():
            found[name].append(await _streamed(running.url, ask()))
    socket.close()
    return found | {"WebSocket": first.delays}


async def run(effort: Effort) -> list[Row]:
    """The faces' rows."""
    name = "tests.bench.stamping_model"
    async with model("--tokens", "5", "--every", "20", name=name) as (pid, url), six(pid, url) as running:
        await _measured(running, 3)
        found = await _measured(running, effort(60, 8))
    socket = quantile(found.pop("WebSocket"), 0.5)
    return [_row(name, delays, socket) for name, delays in found.items()]


def _row(name: str, delays: list[float], socket: float) -> Row:
    p50, p95 = quantile(delays, 0.5), quantile(delays, 0.95)
    value, floor = f"{p50:.2f} ms (p95 {p95:.1f})", f"the WebSocket's {socket:.2f} ms"
    numbers = {"p50_ms": p50, "p95_ms": p95, "websocket_ms": socket}
    return Row(f"faces: first delta, {name}, p50", value, floor, "within 2 ms of it", p50 - socket <= 2, numbers)
