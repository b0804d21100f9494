"""A process dies at some point of a move: it is done or not begun, and it is done once it was accepted."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx2 import HTTPError

from pentad.shared.actors.mail import SessionMessage
from pentad.shared.actors.transcript import EXCLUSION, remaining, shown
from pentad.shared.keys import SessionKeys, TaskKeys
from tests.support.clients.api import Api
from tests.support.models.model_server import ScriptedModel
from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, say
from tests.support.processes.system import System
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

MOST_ROUNDS = 20
"""In which a runner dies: until it has carried out a part of the moves."""
SESSIONS = 6
"""Of each round; the moved message is being answered in every other one."""
LATEST_S = 0.02
"""After the last requests have begun, somebody dies."""
COUNTS = {"gateway": 1, "router": 1, "task-runner": 1}


@dataclass(frozen=True)
class Asked:
    """A session whose second message is to become a task of its own."""

    session: str
    task: str

    @property
    def message_id(self) -> str:
        return f"{self.session}-pasta"


class Stand:
    """A system, and what its sessions say."""

    def __init__(self, system: System, model: ScriptedModel, bus: Bus) -> None:
        self.system, self.bus, self.slow = system, bus, True
        model.script = self._answer
        self._never = asyncio.Event()

    def _answer(self, request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]["content"]
        assert ill_formed(request["messages"]) == []
        if last == "pasta, slowly" and self.slow:
            return say("this takes long", wait=self._never, wait_after=1)
        return say(f"an answer to {last}")

    @property
    def url(self) -> str:
        return self.system.named("gateway")[0].url

    async def begin(self, session: str, *, slow: bool) -> Asked:
        """A task with two messages; the second is answered, or being answered."""
        await self.bus.send("weather", session)
        (start,) = await self.bus.until(session, "task_start")
        await self.bus.until(session, "task_end")
        asked = Asked(session, start["task_id"])
        said = {"task_id": asked.task, "message_id": asked.message_id}
        await self.bus.send("pasta, slowly" if slow else "pasta", session, **said)
        await (self.bus.until(session, "content") if slow else self.bus.until(session, "task_end", 2))
        return asked

    async def ask(self, asked: Asked) -> None:
        """Again and again, until it is accepted or done."""
        body = {"message_id": asked.message_id, "to": "new"}
        while True:
            with suppress(HTTPError):
                async with Api(self.url) as api:
                    await api.post(f"/v1/tasks/{asked.task}/move", body)
                    return
            await asyncio.sleep(0.01)

    async def is_moved(self, asked: Asked) -> bool:
        """By all that says so, which must agree: events, the transcript, the session's last turns, the new task."""
        found = {
            "told": bool(await self.bus.events(asked.session, "message_moved")),
            "excluded": EXCLUSION in [line["role"] for line in await self.lines(asked.task)],
            "followed": asked.message_id in await self._turns_elsewhere(asked),
            "begun": len({e["task_id"] for e in await self.bus.events(asked.session, "task_start")}) == 2,
        }
        assert len(set(found.values())) == 1, (asked, found)
        return found["told"]

    async def any_moved(self, sessions: Sequence[Asked]) -> bool:
        """Whether one of them has been moved."""
        return any(await asyncio.gather(*(self.bus.events(asked.session, "message_moved") for asked in sessions)))

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """A task's transcript."""
        raw = await self.bus.redis.lrange(TaskKeys(0, "default", task).log, 0, -1)
        return [shown(line.encode()) for line in raw]

    async def _turns_elsewhere(self, asked: Asked) -> list[str | None]:
        raw = await self.bus.redis.lrange(SessionKeys(0, "default", asked.session).turns, 0, -1)
        turns = [SessionMessage.model_validate_json(turn) for turn in raw]
        return [turn.message_id for turn in turns if turn.task_id != asked.task]

    async def check(self, asked: Asked) -> None:
        """It was moved once, stands in the new task alone, is answered there, and all is well-formed."""
        (moved,) = await self.bus.until(asked.session, "message_moved")
        assert (moved["from_task_id"], moved["message_id"]) == (asked.task, asked.message_id)
        other = moved["to_task_id"]

        async def ended() -> bool:
            starts, ends = [await self.bus.events(asked.session, kind) for kind in ("task_start", "task_end")]
            return Counter(e["task_id"] for e in starts) == Counter(e["task_id"] for e in ends)

        await wait_until(f"the tasks of {asked.session} to end", ended)
        places = {task: await self.lines(task) for task in (asked.task, other)}
        holders = [
            task
            for task, lines in places.items()
            for line in remaining(lines)
            if line.get("message_id") == asked.message_id and not line.get("origin")
        ]
        assert holders == [other]
        assert remaining(places[other])[-1]["content"].startswith("an answer to pasta")
        assert [line["content"] for line in remaining(places[asked.task])] == ["weather", "an answer to weather"]


@asynccontextmanager
async def stand(folder: Path) -> AsyncIterator[Stand]:
    async with RedisServer() as redis, ScriptedModel(lambda _: say("ok"), record=False) as model, Bus(redis.url) as bus:
        environment = {"LLM_BASE_URL": model.base_url, "PENTAD_LEASE_S": "0.6"}
        async with System(redis.url, folder, COUNTS, environment) as system:
            yield Stand(system, model, bus)


async def moves(it: Stand, number: int) -> tuple[Sequence[Asked], list[asyncio.Task[None]]]:
    """Sessions whose second messages are being moved: one is by now, and half of them have just been asked for."""
    it.slow = True
    begun = [it.begin(f"s{number}-{n}", slow=n % 2 == 1) for n in range(SESSIONS)]
    sessions: Sequence[Asked] = await asyncio.gather(*begun)
    it.slow = False
    requests = [asyncio.create_task(it.ask(asked)) for asked in sessions[: SESSIONS // 2]]
    await wait_until("the first move", lambda: it.any_moved(sessions))
    return sessions, [*requests, *(asyncio.create_task(it.ask(asked)) for asked in sessions[SESSIONS // 2 :])]


async def go_on(it: Stand, name: str, sessions: Sequence[Asked], requests: Sequence[asyncio.Task[None]]) -> None:
    """The killed process is started again: every move is carried out."""
    (victim,) = it.system.named(name)
    it.system.start(victim)
    await it.system.ready(victim)
    await asyncio.gather(*requests)
    for asked in sessions:
        await it.check(asked)


async def test_a_runner_that_is_killed_leaves_each_move_done_or_not_begun(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with stand(tmp_path) as it:
        for number in range(MOST_ROUNDS):
            sessions, requests = await moves(it, number)
            await asyncio.sleep(chance.uniform(0, LATEST_S))
            it.system.kill(it.system.named("task-runner")[0])
            done = [await it.is_moved(asked) for asked in sessions]  # nothing goes on before it is started again
            print(f"\nkilled: {sum(done)} of {len(done)} moves were done")
            await go_on(it, "task-runner", sessions, requests)
            if 0 < sum(done) < len(done):
                return
    raise AssertionError("nobody died in the middle")


@pytest.mark.slow
async def test_whoever_else_is_killed_in_a_move_it_is_carried_out_once(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with stand(tmp_path) as it:
        for number, name in enumerate(("gateway", "router")):
            sessions, requests = await moves(it, number)
            await asyncio.sleep(chance.uniform(0, LATEST_S))
            it.system.kill(it.system.named(name)[0])
            await go_on(it, name, sessions, requests)
