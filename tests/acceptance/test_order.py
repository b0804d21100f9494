"""Order with three routers, two runners and two gateways, also while routers are killed; nobody waits for others."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.clients.api import Api
from tests.support.clients.line import Event, Line
from tests.support.models.replies import Reply, say
from tests.support.processes.cluster import Cluster
from tests.support.processes.stage import new_session
from tests.support.redis.raw_redis import INBOUND, events_of, publish, redis_at, unacknowledged
from tests.support.waiting import PATIENCE_S, in_time, wait_until

pytestmark = pytest.mark.acceptance

SESSIONS, MESSAGES = 40, 8
LONG = range(4, MESSAGES)
"""These messages are long: moving many takes its time, so that a kill finds some that are read and not yet moved."""


def text(session: str, number: int) -> str:
    return f"message {number} of {session}" + " and so on" * (2000 if number in LONG else 0)


async def send_all(cluster: Cluster, sessions: list[str], numbers: range) -> None:
    """Raw messages, back to back: one of each session in turn, so that neighbours belong to different sessions."""
    await publish(
        cluster.redis_url,
        *(
            {"content": text(session, n), "session_id": session, "message_id": f"m{n}"}
            for n in numbers
            for session in sessions
        ),
    )


async def settled(cluster: Cluster, session: str, count: int) -> list[Event]:
    """A session's events, once so many messages were routed and every task that was started has ended."""
    events = await events_of(cluster.redis_url, session)
    kinds = [e["type"] for e in events]
    routed, open_tasks = kinds.count("message_routed"), kinds.count("task_start") - kinds.count("task_end")
    return events if routed >= count and open_tasks == 0 and kinds[-1] == "task_end" else []


async def check_order(cluster: Cluster, sessions: list[str], seconds: float = PATIENCE_S) -> None:
    """Routed in order, and in the transcripts in order; each message once."""
    async with Api(cluster.gateways[0]) as api:
        for session in sessions:
            events = await wait_until(
                f"{MESSAGES} messages of {session} to be answered",
                partial(settled, cluster, session, MESSAGES),
                seconds,
            )
            routed = [e["message_id"] for e in events if e["type"] == "message_routed"]
            assert routed == [f"m{n}" for n in range(MESSAGES)], f"{session} was routed as {routed}"
            ends = [(e["status"], e["reason"]) for e in events if e["type"] == "task_end"]
            assert set(ends) == {("completed", "answered")}, f"{session}: {events}"
            assert await said(api, session) == [text(session, n) for n in range(MESSAGES)], session


async def said(api: Api, session: str) -> list[str]:
    """The users' messages of a session's tasks, the oldest task first."""
    tasks: list[Event] = (await api.get(f"/v1/tasks?session_id={session}&limit=100"))["items"]
    tasks.sort(key=lambda task: task["created_at"])
    transcripts = [await api.transcript(task["task_id"]) for task in tasks]
    return [m["content"] for transcript in transcripts for m in transcript if m["role"] == "user"]


def answer(request: dict[str, Any]) -> Reply:
    return say(f"that makes {len(request['messages'])}")


@pytest.mark.slow
async def test_messages_sent_back_to_back_keep_their_order(cluster: Cluster) -> None:
    sessions = [new_session() for _ in range(SESSIONS)]
    async with cluster.model(answer) as model:
        begun = time.monotonic()
        await send_all(cluster, sessions, range(MESSAGES))
        await check_order(cluster, sessions)
        took = time.monotonic() - begun
    print(f"{SESSIONS} sessions of {MESSAGES}: in order, {took:.2f} s, the model was asked {len(model.chats)} times")


async def test_messages_keep_their_order_while_routers_are_killed(cluster: Cluster) -> None:
    sessions, ones = [new_session() for _ in range(SESSIONS)], LONG[0]
    async with cluster.model(answer):
        begun = time.monotonic()
        for n in range(ones):
            await send_all(cluster, sessions, range(n, n + 1))
            # In the middle: some of this wave are routed, the others lie before and behind the ingress.
            await wait_until("the first of a wave", partial(routed_any, cluster, sessions, n))
            await cluster.kill_router(n)
        left = await kill_in_the_ingress(cluster, sessions, LONG)
        await check_order(cluster, sessions)
        took = time.monotonic() - begun
        await cluster.all_ready()
    print(f"{SESSIONS} sessions of {MESSAGES} under {ones} kills of one router and 1 of all, which left {left} entries")
    print(f"read but not acknowledged: in order, {took:.2f} s")


async def kill_in_the_ingress(cluster: Cluster, sessions: list[str], numbers: range) -> int:
    """Kill all routers while one of them moves entries; returns how many it had read and not acknowledged."""
    async with redis_at(cluster.redis_url) as redis:
        # One of them must hold the ingress again, after the kills before.
        await wait_until("the ingress to be empty", partial(ingress_is_empty, redis))
        sending = asyncio.create_task(send_all(cluster, sessions, numbers))
        async with in_time():
            # Asked as fast as Redis answers: a batch is moved within milliseconds.
            while not (await unacknowledged(redis) or (sending.done() and await ingress_is_empty(redis))):
                pass
        await cluster.kill_routers()
        await sending
        return await unacknowledged(redis)


async def ingress_is_empty(redis: Redis) -> bool:
    """Whether every inbound entry so far has been moved."""
    (group,) = await redis.xinfo_groups(INBOUND)
    return bool(group["pending"] == 0 and group["lag"] == 0)


async def routed_any(cluster: Cluster, sessions: list[str], number: int) -> bool:
    """Whether a message of this number has been routed in any of some sessions."""
    events = [e for s in sessions[:3] for e in await events_of(cluster.redis_url, s)]
    return any(e["type"] == "message_routed" and e["message_id"] == f"m{number}" for e in events)


@asynccontextmanager
async def lines(cluster: Cluster, count: int) -> AsyncIterator[list[Line]]:
    """So many sessions, at both gateways in turn."""
    async with AsyncExitStack() as stack:
        urls = cluster.gateways
        yield [
            await stack.enter_async_context(Line(urls[n % len(urls)], new_session(), after="0")) for n in range(count)
        ]


async def test_a_session_whose_model_is_slow_delays_no_other(cluster: Cluster) -> None:
    slow, go = f"slow {new_session()}", asyncio.Event()

    def script(request: dict[str, Any]) -> Reply:
        held = request["messages"][-1]["content"] == slow
        return say("done", wait=go) if held else say("done")

    async with cluster.model(script) as model, lines(cluster, 21) as (first, *others):
        begun = time.monotonic()
        await first.say(slow)
        await wait_until("the slow model call", lambda: model.seen.answering == 1)
        for line in others:
            await line.say("quick")
        for line in others:
            await line.until("task_end")
        took = time.monotonic() - begun
        assert first.answers("task_end") == [], "the slow turn had ended"
        # Two seconds and more: as long as the test holds it.
        await asyncio.wait({asyncio.create_task(go.wait())}, timeout=max(0.0, 2 - took))
        go.set()
        await first.until("task_end")
    print(f"{len(others)} sessions were done after {took:.2f} s, while one waited for its model for 2 s and more")
