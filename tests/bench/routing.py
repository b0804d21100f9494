"""How long a message takes to its task in 1,000 sessions of five live tasks each, and what a session keeps for that.

The times are Redis's own: from the message's entry in the inbound stream to its ``message_routed``, in whole ms.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis.asyncio import Redis

from pentad.shared.actors.session_header import answer_field, excerpt
from pentad.shared.keys import SessionKeys
from tests.bench.common import Cpu, Effort, Row, quantile
from tests.support.processes.system import System
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

_OPENINGS = (
    "I want to book a flight from Berlin to Lisbon next Friday.",
    "Can you also find me a vegetarian restaurant near the opera?",
    "By the way, write a short poem about autumn leaves, please.",
    "Could you summarise the quarterly report of the sales team for me?",
    "Hello! Please translate my cover letter for the bank into French.",
)
_LATER = (
    "Is the flight from Berlin to Lisbon direct?",
    "The table at the vegetarian restaurant is for four people.",
    "Could the poem have a second verse about the autumn leaves?",
    "Which figure of the quarterly sales report grew most?",
    "Is the French of the cover letter polite enough?",
    "Thursday at eleven would be better.",
)
_ANSWER = " ".join(f"Here is what I found about part {n}: it has word{n}, thing{n} and item{n}." for n in range(40))
_EVERY_S = 0.01
"""Between two messages that are timed: the router is to be busy, and not behind."""
_PATIENCE_S = 120.0


async def run(effort: Effort) -> list[Row]:
    """The rows of routing."""
    sessions = [f"s{n}" for n in range(effort(1000, 100))]
    with TemporaryDirectory(prefix="pentad-bench-") as directory:
        async with (
            RedisServer(aof="everysec") as server,
            System(server.url, Path(directory), {"router": 1}, warm=False) as system,
        ):
            router = system.named("router")[0].running
            assert router is not None
            async with Redis.from_url(server.url, protocol=2, decode_responses=True) as redis:
                await _begin(redis, sessions)
                watch = Cpu({"router": [router.pid]})
                times = await _timed(redis, sessions)
                cpu = watch.spent()["router"] / len(times) * 1e3
                sizes = [await _header_bytes(redis, session) for session in sessions]
    return _rows(len(sessions), times, cpu, sizes)


def _rows(sessions: int, times: Sequence[int], cpu: float, sizes: Sequence[int]) -> list[Row]:
    p50, p95 = quantile(times, 0.5), quantile(times, 0.95)
    return [
        Row(
            f"routing: p50 / p95, {sessions} sessions of five live tasks",
            f"{p50:.0f} / {p95:.0f} ms ({cpu:.2f} ms of the router's CPU)",
            "",
            "p95 under 20 ms",
            p95 < 20,
            {"p50_ms": p50, "p95_ms": p95, "cpu_ms": cpu},
        ),
        Row(
            "routing: bytes of a session's header, p50 / most",
            f"{quantile(sizes, 0.5):.0f} / {max(sizes)}",
            numbers={"p50_bytes": quantile(sizes, 0.5), "most_bytes": max(sizes)},
        ),
    ]


async def _begin(redis: Any, sessions: Sequence[str]) -> None:
    """Five tasks in each session, which live since nobody works on them, and a second turn of each."""
    for number, text in enumerate(_OPENINGS, start=1):
        for session in sessions:
            await _say(redis, session, text)
        await _until_routed(redis, sessions, number)
    for session in sessions:
        decisions = await _routed(redis, session)
        if [event["decision"] for event in decisions] != ["new"] * len(_OPENINGS):
            raise RuntimeError(f"{session} has not {len(_OPENINGS)} tasks: {decisions}")
        for event, text in zip(decisions, _LATER, strict=False):
            await _answer(redis, session, event["task_id"])
            await _say(redis, session, text, task_id=event["task_id"])
    await _until_routed(redis, sessions, 2 * len(_OPENINGS))
    for session in sessions:
        await _answer(redis, session, (await _routed(redis, session))[-1]["task_id"])


async def _say(redis: Any, session: str, text: str, **fields: str) -> str:
    message = {"content": text, "session_id": session, **fields}
    entry: str = await redis.xadd("pentad:inbound", {"data": json.dumps(message)})
    return entry


async def _answer(redis: Any, session: str, task: str) -> None:
    """What the task-runner leaves in a session when a task has answered."""
    await redis.hset(SessionKeys(0, "default", session).header, answer_field(task), excerpt(_ANSWER))


async def _routed(redis: Any, session: str) -> list[dict[str, Any]]:
    entries = await redis.xrange(SessionKeys(0, "default", session).events)
    read = [json.loads(fields["data"]) | {"id": entry} for entry, fields in entries]
    return [event for event in read if event["type"] == "message_routed"]


async def _until_routed(redis: Any, sessions: Sequence[str], number: int) -> None:
    missing = list(sessions)

    async def none_missing() -> bool:
        missing[:] = [s for s in missing if len(await _routed(redis, s)) < number]
        return not missing

    await wait_until(f"message {number} of all sessions to be routed", none_missing, _PATIENCE_S)


async def _timed(redis: Any, sessions: Sequence[str]) -> list[int]:
    """ms of one message to each session, all different tasks."""
    sent: dict[str, str] = {}
    for number, session in enumerate(sessions):
        sent[session] = await _say(redis, session, _LATER[number % len(_LATER)])
        await asyncio.sleep(_EVERY_S)
    await _until_routed(redis, sessions, 2 * len(_OPENINGS) + 1)
    lasts = [(session, (await _routed(redis, session))[-1]) for session in sessions]
    return [_ms(last["id"]) - _ms(sent[session]) for session, last in lasts]


def _ms(entry: str) -> int:
    return int(entry.partition("-")[0])


async def _header_bytes(redis: Any, session: str) -> int:
    return int(await redis.memory_usage(SessionKeys(0, "default", session).header, samples=0))
