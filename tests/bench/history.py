"""What a long conversation costs: CPU of a turn at its 200th turn beside its first ones, in one reopened task."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from pentad.shared.actors.transcript import message_of
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatRequest
from tests.bench.common import Cpu, Effort, Row, middle
from tests.bench.conversation import SocketClient
from tests.bench.processes import Running, model, six

_ENDLESS = 1 << 30
_REPEATS = 40


@dataclass(frozen=True, slots=True)
class Prompt:
    """ms of CPU of one model call's prompt."""

    messages: int
    read: float
    """Transcript from Redis to ready bytes, which a runner does when it has not served the task lately."""
    send: float
    """Joining it to a request and writing that, beyond what a call with a first turn's prompt costs."""


async def _window(running: Running, client: SocketClient, turns: int) -> dict[str, float]:
    """ms of CPU a turn, by name."""
    watch = Cpu(running.everyone)
    for _ in range(turns):
        await client.turn()
    return {name: seconds / turns * 1e3 for name, seconds in watch.spent().items()}


async def _young(running: Running, turns: int) -> dict[str, float]:
    client = SocketClient(running.url, _ENDLESS)
    try:
        return await _window(running, client, turns)
    finally:
        await client.close()


async def _conversation(running: Running, length: int, window: int) -> tuple[dict[str, float], dict[str, float]]:
    """One conversation's last turns, and the first turns of new ones just before and after: the machine drifts."""
    client = SocketClient(running.url, _ENDLESS)
    await _window(running, client, length - window)
    before = await _young(running, window)
    old = await _window(running, client, window)
    after = await _young(running, window)
    await client.close()
    return {name: (before[name] + after[name]) / 2 for name in before}, old


async def _longest_log(redis: Any) -> str:
    keys = [key async for key in redis.scan_iter(match="pentad:*:task:*:log", count=1000)]
    lengths = [await redis.llen(key) for key in keys]
    return str(keys[lengths.index(max(lengths))].decode())


async def _prompt(running: Running, model_url: str) -> Prompt:
    """The prompt's share, with the runner's own parts."""
    redis: Any = Redis.from_url(running.redis_url)
    key = await _longest_log(redis)
    begun = time.process_time()
    for _ in range(_REPEATS):
        messages = [message_of(raw) for raw in await redis.lrange(key, 0, -1)]
    read = (time.process_time() - begun) / _REPEATS
    await redis.aclose()
    chat = OpenAIChat(model_url, "none", "scripted")
    await _calls(chat, messages)
    costs = [(await _calls(chat, messages)) - (await _calls(chat, messages[:4])) for _ in range(3)]
    await chat.aclose()
    return Prompt(len(messages), read * 1e3, middle(costs) * 1e3)


async def _calls(chat: OpenAIChat, messages: list[bytes]) -> float:
    """Seconds of our CPU of one call with this prompt."""
    request = ChatRequest(messages=messages, tools=None, timeout_s=10.0)
    begun = time.process_time()
    for _ in range(_REPEATS):
        await chat.stream(request, lambda _kind, _text: None)
    return (time.process_time() - begun) / _REPEATS


async def run(effort: Effort) -> list[Row]:
    """The history's rows."""
    length, window = effort(200, 80), effort(10, 8)
    young, old = [], []
    async with model("--turn") as (pid, url), six(pid, url) as running:
        await asyncio.gather(*(_young(running, 10) for _ in range(4)))
        for _ in range(effort(4, 1)):
            first, last = await _conversation(running, length, window)
            young.append(first)
            old.append(last)
        prompt = await _prompt(running, url)
        return _rows(running, young, old, prompt, length)


def _ours(running: Running, turns: list[dict[str, float]]) -> float:
    return middle(sum(turn[name] for name in running.ours) for turn in turns)


def _rows(
    running: Running, young: list[dict[str, float]], old: list[dict[str, float]], prompt: Prompt, length: int
) -> list[Row]:
    first, last = _ours(running, young), _ours(running, old)
    apart = last - 2 * prompt.send  # a turn asks the model twice
    parts: Mapping[str, tuple[float, float]] = {
        name: (middle(t[name] for t in young), middle(t[name] for t in old)) for name in running.everyone
    }
    return [
        Row(
            f"history: CPU of turn {length}, prompt apart",
            f"{apart:.2f} ms ({apart / first:.2f} x; whole {last:.2f} ms, {last / first:.2f} x)",
            f"turn 1: {first:.2f} ms",
            "at most 1.3 x turn 1",
            apart <= 1.3 * first,
            {"first_ms": first, "last_ms": last, "apart_ms": apart, "x": apart / first, "whole_x": last / first},
        ),
        Row(
            f"history: the prompt of turn {length}, {prompt.messages} messages",
            f"encoded and sent {prompt.send:.2f} ms a call",
            f"read anew from Redis {prompt.read:.2f} ms (once kept: 0)",
            numbers={"send_ms": prompt.send, "read_ms": prompt.read},
        ),
        Row(
            f"history: CPU ms by process, turn 1 > {length}",
            " ".join(_growth(name, parts[name]) for name in ("gateway", "router", "task-runner", "tool-worker")),
            "beside: " + ", ".join(_growth(name, parts[name]) for name in running.beside),
        ),
    ]


def _growth(name: str, part: tuple[float, float]) -> str:
    return f"{name} {part[0]:.2f}>{part[1]:.2f}"
