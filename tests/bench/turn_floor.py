"""The floor of a turn: the same work by hand on redis-py streams, one process each for router, runner and tool.

A message goes to the router, the runner asks the model (its bytes read raw), the tool answers, the runner asks again,
writes the first delta and the rest, the answer and the end. Each step is one pipeline with its state and its XACK. No
contracts, leases, fences, exactly-once or gateway. ``python -m tests.bench.turn_floor ROLE REDIS_URL MODEL_URL``.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json
from redis.asyncio import Redis

from tests.bench.common import make_group
from tests.bench.processes import module

INBOUND, STEPS, CALLS, EVENTS = "floor:in", "floor:steps", "floor:calls", "floor:events"
Fields = dict[bytes, bytes]
Work = Callable[[Any, str, Fields], Awaitable[None]]


async def _serve(redis: Any, stream: str, work: Work) -> None:
    """Hand each entry to its own task, so that a model's answer holds up nobody else."""
    await make_group(redis, stream, "g")
    print("ready", flush=True)
    running: set[asyncio.Task[None]] = set()
    while True:
        for _, entries in await redis.xreadgroup("g", "c", {stream: ">"}, count=32, block=1000) or []:
            for entry_id, fields in entries:
                task = asyncio.create_task(_handle(redis, stream, entry_id, fields, work))
                running.add(task)
                task.add_done_callback(running.discard)


async def _handle(redis: Any, stream: str, entry_id: str, fields: Fields, work: Work) -> None:
    pipe = redis.pipeline(transaction=False)
    await work(pipe, fields[b"session"].decode(), fields)
    pipe.xack(stream, "g", entry_id)
    await pipe.execute()


async def route(pipe: Any, session: str, fields: Fields) -> None:
    """The router: this message goes to the session's task."""
    pipe.rpush(f"floor:log:{session}", to_json({"role": "user", "content": fields[b"content"].decode()}))
    pipe.xadd(EVENTS, {"session": session, "type": "message_routed"})
    pipe.xadd(STEPS, {"session": session})


async def run_tool(pipe: Any, session: str, fields: Fields) -> None:
    """The tool: an echo."""
    answer = {"role": "tool", "tool_call_id": "call_0", "content": fields[b"args"].decode()}
    pipe.rpush(f"floor:log:{session}", to_json(answer))
    pipe.xadd(EVENTS, {"session": session, "type": "tool_result"})
    pipe.xadd(STEPS, {"session": session})


class Runner:
    """The runner: reads the transcript, asks the model, writes what it said."""

    def __init__(self, redis: Any, model_url: str) -> None:
        self._redis, self._model = redis, RawModel(model_url)

    async def step(self, pipe: Any, session: str, fields: Fields) -> None:
        """One step of one session."""
        log = await self._redis.lrange(f"floor:log:{session}", 0, -1)
        text, call = await self._model.ask(log, lambda piece: self._delta(session, piece))
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if call:
            said["tool_calls"] = [{"id": "call_0", "type": "function", "function": call}]
            pipe.xadd(CALLS, {"session": session, "args": call["arguments"]})
            pipe.xadd(EVENTS, {"session": session, "type": "tool_call"})
        else:
            pipe.xadd(EVENTS, {"session": session, "type": "message", "content": text})
            pipe.xadd(EVENTS, {"session": session, "type": "task_end"})
        pipe.rpush(f"floor:log:{session}", to_json(said))

    async def _delta(self, session: str, text: str) -> None:
        await self._redis.xadd(EVENTS, {"session": session, "type": "content", "content": text})


class RawModel:
    """The scripted model over idle raw connections."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._where = where.hostname or "", where.port or 80
        self._idle: list[_Wire] = []

    async def ask(
        self, messages: list[bytes], on_delta: Callable[[str], Awaitable[None]]
    ) -> tuple[str, dict[str, str] | None]:
        """The answer's text and the tool call in it. The first delta is told at once."""
        body = b'{"model":"scripted","stream":true,"messages":[' + b",".join(messages) + b"]}"
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nContent-Length: {len(body)}\r\n\r\n"
        wire = self._idle.pop() if self._idle else await self._connect()
        data = await wire.ask(head.encode() + body)
        self._idle.append(wire)
        text: list[str] = []
        call = {"name": "", "arguments": ""}
        for line in data.split(b"\n"):
            if not line.startswith(b"data: {"):
                continue
            choices = from_json(line[6:])["choices"]
            delta = choices[0]["delta"] if choices else {}
            if delta.get("content"):
                if not text:
                    await on_delta(delta["content"])
                text.append(delta["content"])
            for part in delta.get("tool_calls", ()):
                call["name"] += part["function"].get("name") or ""
                call["arguments"] += part["function"].get("arguments") or ""
        return "".join(text), call if call["name"] else None

    async def _connect(self) -> "_Wire":
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(_Wire, *self._where)
        return wire


class _Wire(asyncio.Protocol):
    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes) -> bytes:
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        if data.endswith(b"\r\n0\r\n\r\n"):
            whole, self._parts = b"".join(self._parts), []
            self._answer.set_result(whole)


async def _role(role: str, url: str, model_url: str) -> None:
    redis: Any = Redis.from_url(url, protocol=2)
    if role == "router":
        await _serve(redis, INBOUND, route)
    elif role == "tool":
        await _serve(redis, CALLS, run_tool)
    else:
        await _serve(redis, STEPS, Runner(redis, model_url).step)


@asynccontextmanager
async def floor(url: str, model_url: str) -> AsyncIterator[dict[str, list[int]]]:
    """The three processes; yields their ids."""
    pids = {}
    async with AsyncExitStack() as stack:
        for role in ("router", "runner", "tool"):
            pid, _ = await stack.enter_async_context(module("tests.bench.turn_floor", role, url, model_url))
            pids[role] = [pid]
        yield pids


if __name__ == "__main__":
    import uvloop

    uvloop.run(_role(sys.argv[1], sys.argv[2], sys.argv[3]))
