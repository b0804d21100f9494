"""Webhooks in the whole system: each event comes, and in order for each task, whoever is killed or fails over."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.keys import webhook_lease
from tests.support.clients.api import Api
from tests.support.outside.webhook_receiver import BROKEN, OK, SECRET, Receiver, is_signed, webhook_receiver
from tests.support.processes.crew import Crew, crew
from tests.support.redis.bus_client import Bus, durable
from tests.support.redis.failover import Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNTS = {"router": 1, "task-runner": 1, "tool-worker": 1}
SESSIONS = [f"s{number}" for number in range(12)]


async def register(team: Crew, receiver: Receiver) -> None:
    async with Api(team.named("gateway")[0].url) as api:
        await api.post("/v1/webhooks", {"url": receiver.url(), "events": ["*"], "secret": SECRET}, status=201)


async def talk(bus: Bus, sessions: Sequence[str], round_: int) -> None:
    """Say something in each session, and wait for all ends."""
    for session in sessions:
        await bus.send(f"what is {round_}+1?", session)
    for session in sessions:
        await bus.until(session, "task_end", count=round_)


async def said(bus: Bus, sessions: Sequence[str] = SESSIONS) -> dict[str, list[str]]:
    """Return the ids of all durable events of the sessions, by task."""
    found = defaultdict[str, list[str]](list)
    for session in sessions:
        for event in durable(await bus.events(session)):
            found[f"{session} {event.get('task_id')}"].append(event["event_id"])
    return found


def received(receiver: Receiver) -> dict[str, list[str]]:
    """Return the ids of what came, by task, in the order of their first coming."""
    found = defaultdict[str, list[str]](list)
    for event in receiver.events():
        found[f"{event['session_id']} {event.get('task_id')}"].append(event["event_id"])
    return found


async def all_came(bus: Bus, receiver: Receiver) -> None:
    """Wait until all that was said came, and see that it came in order."""
    wanted = await said(bus)
    total = sum(map(len, wanted.values()))
    await wait_until(
        f"{total} events",
        lambda: {k: sorted(v) for k, v in received(receiver).items()} == {k: sorted(v) for k, v in wanted.items()},
    )
    assert received(receiver) == wanted
    assert all(is_signed(each, SECRET) for each in receiver.requests())


async def test_events_come_once_or_more_and_in_order_while_gateways_are_killed(tmp_path: Path) -> None:
    """Receivers that answer slowly or with errors are in the middle of something whenever a gateway dies."""
    chance = random.Random(7)

    async def unsteady(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(chance.choice((0, 0, 0.02)))
        writer.write(BROKEN if chance.random() < 0.02 else OK)
        await writer.drain()

    async with (
        RedisServer() as server,
        webhook_receiver(hook=unsteady) as receiver,
        crew(server.url, tmp_path, {"gateway": 2, **COUNTS}, PENTAD_WEB_ALLOW=receiver.place) as team,
        Bus(server.url) as bus,
    ):
        await register(team, receiver)
        for number in range(1, 7):
            talking = asyncio.create_task(talk(bus, SESSIONS, number))
            seen = len(receiver.requests())
            await wait_until("some to be on their way", partial(_has_come, receiver, seen + 5))
            victim = team.named("gateway")[number % 2]
            team.kill(victim)
            await talking
            team.start(victim)
            await team.ready(victim)
        await all_came(bus, receiver)
        print(f"\n{len(receiver.requests())} requests, {len(receiver.events())} events")
        await wait_until("nothing to be left, once what was answered with an error has come again", _holds_nothing(bus))


def _holds_nothing(bus: Bus) -> Callable[[], Awaitable[bool]]:
    async def holds_nothing() -> bool:
        left = [key async for key in bus.redis.scan_iter("*webhook*")]
        return [key for key in left if await bus.redis.ttl(key) == -1] == ["pentad:webhooks"]

    return holds_nothing


async def test_a_gateway_that_hangs_leaves_its_deliveries_to_another(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        webhook_receiver() as receiver,
        crew(server.url, tmp_path, {"gateway": 2, **COUNTS}, PENTAD_WEB_ALLOW=receiver.place) as team,
        Bus(server.url) as bus,
    ):
        await register(team, receiver)
        await talk(bus, SESSIONS[:2], 1)
        await wait_until("a gateway to have the lease", lambda: bus.redis.exists(webhook_lease(0)))
        for number, gateway in enumerate(team.named("gateway"), start=2):
            team.pause(gateway)
            await talk(bus, SESSIONS[:2], number)
            wanted = await said(bus, SESSIONS[:2])
            await wait_until("all events", partial(_has_all, receiver, wanted))
            team.resume(gateway)


@pytest.mark.parametrize("lag_s", [0.0, 0.4])
async def test_events_come_after_a_failover(tmp_path: Path, lag_s: float) -> None:
    """What the new primary knows is sent; it may lack the last writes, and what was sent by then comes again."""
    async with (
        Redundant() as redis,
        webhook_receiver() as receiver,
        crew(redis.url, tmp_path, {"gateway": 1, **COUNTS}, PENTAD_WEB_ALLOW=receiver.place) as team,
        Bus(redis.url) as bus,
    ):
        await register(team, receiver)
        await talk(bus, SESSIONS, 1)
        for number in range(2):
            if lag_s:
                for session in SESSIONS:
                    await bus.send("what is 2*3?", session)
            await redis.take_over("killed", lag_s)
            after = [f"after-{number}-{each}" for each in range(4)]
            await talk(bus, after, 1)
            wanted = await said(bus, [*SESSIONS, *after])
            await wait_until("all events", partial(_has_all, receiver, wanted))


def _has_come(receiver: Receiver, number: int) -> bool:
    return len(receiver.requests()) > number


def _has_all(receiver: Receiver, wanted: dict[str, list[str]]) -> bool:
    """Return whether all of these came, in order: what a lost primary has said may have come between."""
    came = received(receiver)
    return all(
        [each for each in came.get(task, []) if each in set(events)] == events for task, events in wanted.items()
    )


async def test_the_turn_of_a_message_is_called_back(tmp_path: Path) -> None:
    async with (
        RedisServer() as server,
        webhook_receiver() as receiver,
        crew(server.url, tmp_path, {"gateway": 1, **COUNTS}, PENTAD_WEB_ALLOW=receiver.place) as team,
        Bus(server.url) as bus,
        Api(team.named("gateway")[0].url) as api,
    ):
        asked: dict[str, Any] = {"content": "what is 6*7?", "callback_url": receiver.url(), "callback_secret": SECRET}
        told = await api.post("/v1/messages", asked | {"session_id": "s1"})
        await api.post("/v1/messages", {"content": "what is 2+2?", "session_id": "s1", "task_id": "new"})
        await wait_until("the end", lambda: [e for e in receiver.events() if e["type"] == "task_end"])
        assert {e.get("correlation_id", told["message_id"]) for e in receiver.events()} == {told["message_id"]}
        await bus.until("s1", "task_end", count=2)
        assert [e["content"] for e in receiver.events() if e["type"] == "message"][-1].count("42") == 1
        assert all(is_signed(each, SECRET) for each in receiver.requests())
