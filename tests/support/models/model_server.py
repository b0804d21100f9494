"""A scripted model server: the OpenAI and Anthropic protocols on a loopback port, cheap enough to stand beside a bench.

    async with ScriptedModel(lambda request: say("hello")) as server:
        client = OpenAIChat(server.base_url, "none", None)

`python -m tests.support.models.model_server --port 9999 --turn` runs it as a process.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

from pydantic_core import from_json, to_json

from pentad.shared.models.embeddings import HashingEmbedding
from tests.support.accepting import close_port
from tests.support.models import model_wire as wire
from tests.support.models.protocols import PROTOCOLS, ScriptedProtocol
from tests.support.models.replies import MODEL, Reply, call, error_body, fail, say
from tests.support.ports import free_port

_SUM = re.compile(r"\(*\d[\d\s.()+*/-]*[+*/-][\d\s.()+*/-]*[\d)]")

Script = Callable[[dict[str, Any]], Reply]
"""Takes the body of a chat request, chooses the answer."""


@dataclass(slots=True)
class Recorded:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Any
    raw: bytes
    """The body, byte for byte."""


@dataclass(slots=True)
class Seen:
    """What the server has seen. `dropped` counts answers whose client left before their end."""

    requests: list[Recorded] = field(default_factory=list)
    connections: int = 0
    answering: int = 0
    dropped: int = 0

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chat requests, in order of arrival."""
        return [request.body for request in self.requests if _spoken(request.path)]


class ScriptedModel:
    """The server. `record=False` keeps no requests, for benches; port 0 takes a free one."""

    def __init__(
        self, script: Script, *, port: int = 0, record: bool = True, models: tuple[str, ...] = (MODEL,), dims: int = 64
    ) -> None:
        self.script = script
        self.models = models
        self.record = record
        self.seen = Seen()
        self.embedding = HashingEmbedding(dims)
        self.refuses: Callable[[dict[str, Any]], Reply | None] = lambda _: None
        """Takes the body of a request for vectors, chooses the refusal; None: it gets them."""
        self._port = port or free_port()
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()

    @property
    def base_url(self) -> str:
        """What to give as LLM_BASE_URL."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the chat requests so far."""
        return self.seen.chats

    async def __aenter__(self) -> ScriptedModel:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self, self._open), "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the port and hang up on everyone. Started again, it keeps its port."""
        if self._server is not None:
            await close_port(self._server)
            for connection in list(self._open):
                connection.hang_up()
            await self._server.wait_closed()
            self._server = None


class _Connection(asyncio.Protocol):
    """One keep-alive connection. An answer without delays is written inside `data_received`, without a task."""

    def __init__(self, server: ScriptedModel, everyone: set[_Connection]) -> None:
        self._owner = server
        self._everyone = everyone
        self._buffer = b""
        self._playing: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not descend from asyncio.Transport, so this cannot be asserted.
        self._transport = cast(asyncio.Transport, transport)
        self._everyone.add(self)
        self._owner.seen.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._everyone.discard(self)
        self._transport = None
        if self._playing is not None:
            self._owner.seen.dropped += 1
            self._playing.cancel()

    def hang_up(self) -> None:
        """Cut the line."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (
            self._playing is None and self._transport is not None and (parsed := wire.parse(self._buffer)) is not None
        ):
            head, body, self._buffer = parsed
            self._answer(*wire.request(head), body)

    def _answer(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        asked: Any = from_json(body) if body else None
        if self._owner.record:
            self._owner.seen.requests.append(Recorded(path, headers, asked, body))
        if (protocol := _spoken(path)) is not None:
            self._chat(asked, protocol)
        elif path.endswith("/models"):
            self._write(
                wire.whole(200, to_json({"object": "list", "data": [{"id": name} for name in self._owner.models]}))
            )
        elif path.endswith("/embeddings"):
            self._embed(asked)
        else:
            self._write(wire.whole(404, error_body(fail(404, message=f"no such path: {path}"))))

    def _chat(self, asked: dict[str, Any], protocol: ScriptedProtocol) -> None:
        fault = protocol.fault(asked)
        reply = fail(400, message=fault) if fault else self._owner.script(asked)
        streaming = bool(asked.get("stream")) and reply.status == 200
        if not reply.immediate:
            self._playing = asyncio.get_running_loop().create_task(self._play(reply, protocol, streaming))
        elif streaming:
            self._write(wire.stream(reply, protocol))
            self._end(reply)
        else:
            self._write(wire.answer_whole(reply, protocol))

    def _embed(self, asked: dict[str, Any]) -> None:
        refusal = self._owner.refuses(asked)
        if refusal is None:
            self._write(wire.whole(200, wire.embeddings(self._owner.embedding, asked)))
        else:
            self._write(wire.whole(refusal.status, error_body(refusal), refusal.headers))

    async def _play(self, reply: Reply, protocol: ScriptedProtocol, streaming: bool) -> None:
        self._owner.seen.answering += 1
        try:
            await asyncio.sleep(reply.first_delay)
            if streaming:
                await self._play_events(reply, protocol.events(reply))
            else:
                await _gate(reply)
                self._write(wire.answer_whole(reply, protocol))
        finally:
            self._owner.seen.answering -= 1
        self._playing = None
        self._end(reply)
        self.data_received(b"")

    async def _play_events(self, reply: Reply, events: tuple[bytes, ...]) -> None:
        self._write(wire.head(reply))
        for number, event in enumerate(events):
            if number == reply.wait_after:
                await _gate(reply)
            if number and reply.delay:
                await asyncio.sleep(reply.delay)
            self._write(wire.chunk(event))
        if reply.wait_after >= len(events):
            await _gate(reply)
        if not wire.breaks(reply):
            self._write(b"0\r\n\r\n")

    def _end(self, reply: Reply) -> None:
        if self._transport is not None and wire.breaks(reply):
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _spoken(path: str) -> ScriptedProtocol | None:
    return next((protocol for protocol in PROTOCOLS if path.endswith(protocol.path)), None)


async def _gate(reply: Reply) -> None:
    if reply.wait is not None:
        await reply.wait.wait()


def take_a_turn(answer: Reply) -> Script:
    """One tool call for each user message (calculator for sums, else echo), then `answer`."""

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return answer
        text = last.get("content") or ""
        sum_ = _SUM.search(text)
        return call(("calculator", {"expression": sum_[0]})) if sum_ else call(("echo", {"text": text}))

    return script


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.support.models.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--turn", action="store_true", help="a tool call, then the answer; else the answer alone")
    parser.add_argument("--say", type=int, default=20, metavar="N", help="length of the answer in chunks")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between chunks")
    return parser.parse_args()


async def _serve(options: argparse.Namespace) -> None:
    answer = say(" ".join(f"word{n:03}" for n in range(options.say)), chunks=options.say, delay=options.delay)
    script = take_a_turn(answer) if options.turn else lambda _request: answer
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with ScriptedModel(script, port=options.port, record=False) as server:
        print(f"ready on {server.base_url}", flush=True)
        await stop.wait()


def main() -> None:
    """Serve until SIGTERM."""
    import uvloop

    uvloop.run(_serve(_options()))


if __name__ == "__main__":
    main()
