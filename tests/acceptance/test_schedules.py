"""Schedules over the whole system: overlapping runs, kills and a failover, an outage of a day, clocks that step."""

import asyncio
import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from pentad.contracts.ids import milliseconds
from tests.support.clients.api import Api
from tests.support.models.replies import say
from tests.support.processes import clocks
from tests.support.processes.crew import Crew, crew
from tests.support.processes.stage import Stage, new_session, stage
from tests.support.processes.system import System
from tests.support.redis.failover import Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance
URL = "/v1/schedules"
EACH_SECOND = {"PENTAD_SCHEDULE_S": "1"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("schedules"), EACH_SECOND) as system:
        yield system


async def added(api: Any, **fields: Any) -> str:
    return str((await api.post(URL, {"content": "go"} | fields, status=201))["schedule_id"])


async def history(api: Any, name: str) -> list[dict[str, Any]]:
    """The runs of a schedule, the earliest first."""
    found: list[dict[str, Any]] = (await api.get(f"{URL}/{name}/runs?limit=500"))["items"]
    return found[::-1]


async def has(api: Any, name: str, *statuses: str) -> list[dict[str, Any]]:
    """The runs, once the first ones have these statuses."""

    async def look() -> list[dict[str, Any]]:
        found = await history(api, name)
        return found if [run["status"] for run in found][: len(statuses)] == list(statuses) else []

    return await wait_until(f"runs that are {statuses}", look)


async def test_while_a_run_goes_on_later_ones_are_skipped_wait_or_cancel_it(runs: Stage) -> None:
    more = asyncio.Event()
    async with runs.model(lambda _: say("one two", chunks=2, wait=more, wait_after=1)), runs.api() as api:
        skips, queues, cancels = [await added(api, every=1, overlap=how) for how in ("skip", "queue", "cancel")]
        skipped = await has(api, skips, "running", "skipped", "skipped")
        assert skipped[1]["reason"] == f"the run of {skipped[0]['due_at']} went on"
        await has(api, queues, "running", "planned", "planned")
        cancelled = await has(api, cancels, "cancelled", "cancelled")
        for name in (queues, cancels, skips):
            assert (await api.post(f"{URL}/{name}/pause", status=200))["status"] == "paused"
        waited = await has(api, queues, "running", "skipped", "skipped")
        assert waited[1]["reason"] == "the schedule was paused"
        more.set()
        ended = await has(api, queues, "completed")
        state = await api.get(f"/v1/runs/{ended[0]['message_id']}?session_id={ended[0]['session_id']}")
        assert (state["status"], state["answer"], state["task_id"]) == ("completed", "one two", ended[0]["task_id"])
        task = await api.get(f"/v1/tasks/{cancelled[0]['task_id']}")
        assert task["status"] == "cancelled"
        for name in (skips, queues, cancels):
            await api.delete(f"{URL}/{name}", status=204)


async def test_runs_that_queue_in_one_session_are_tasks_of_their_own_one_after_the_other(runs: Stage) -> None:
    session = new_session()
    async with runs.model(lambda _: say("done")), runs.api() as api:
        name = await added(api, every=1, overlap="queue", session_id=session)
        found = await has(api, name, "completed", "completed", "completed")
        await api.delete(f"{URL}/{name}", status=204)
        assert len({run["task_id"] for run in found[:3]}) == 3
        for earlier, later in pairwise(found[:3]):
            assert milliseconds(earlier["ended_at"]) <= milliseconds(later["sent_at"])


async def test_a_run_that_nobody_can_carry_out_says_why_and_stops_no_later_one(runs: Stage) -> None:
    async with runs.model(lambda _: say("done")), runs.api() as api:
        name = await added(api, every=1, instruction="nobody-has-this")
        found = await has(api, name, "rejected", "rejected")
        assert "nobody-has-this" in found[0]["reason"]
        await api.delete(f"{URL}/{name}", status=204)


async def test_a_schedule_goes_with_its_session(runs: Stage) -> None:
    session = new_session()
    async with runs.model(lambda _: say("done")), runs.api() as api:
        name = await added(api, every=1, session_id=session)
        await has(api, name, "completed")
        await api.delete(f"/v1/sessions/{session}")
        await wait_until("it to go", lambda: _is_gone(api, name))

        async def is_erased() -> bool:
            return bool((await api.get(f"/v1/tasks?session_id={session}"))["items"] == [])

        await wait_until("its tasks to go", is_erased)


async def _is_gone(api: Any, name: str) -> bool:
    return name not in {each["schedule_id"] for each in (await api.get(URL))["items"]}


COUNTS = {"gateway": 3, "router": 3, "task-runner": 2, "tool-worker": 1, "embedding": 1}


async def test_three_of_each_under_kills_and_a_failover_run_each_due_time_once(tmp_path: Path) -> None:
    """What is seen is the session's own list of messages, not the schedule's history alone."""
    chance = random.Random(58)
    async with Redundant() as redis, crew(redis.url, tmp_path / "run", COUNTS, **EACH_SECOND) as team:
        sessions = [new_session() for _ in range(4)]
        names = [await _at_any(team, "POST", _body(session)) for session in sessions]
        for number in range(8):
            victims = team.named("gateway" if number % 2 else "router")
            await _some_runs(team, names)
            victim = chance.choice(victims)
            team.kill(victim, SIGKILL)
            if number == 3:
                await redis.take_over("killed", lag_s=0.3)
            team.start(victim)
        await asyncio.gather(*(team.ready(process) for process in team.processes))
        async with Api(team.named("gateway")[0].url) as api:
            for name in names:
                await api.post(f"{URL}/{name}/pause", status=200)
            for name, session in zip(names, sessions, strict=True):
                found = await wait_until("all to end", lambda name=name: _ended(api, name))  # type: ignore[misc]
                _is_whole(found)
                said = (await api.get(f"/v1/sessions/{session}/messages?limit=500"))["items"]
                mine = [each["message_id"] for each in said if each["role"] == "user"]
                assert sorted(mine) == sorted(run["message_id"] for run in found if "message_id" in run), name
                assert len({run["task_id"] for run in found if "task_id" in run}) == len(mine)


def _body(session: str) -> dict[str, Any]:
    return {"content": "hello", "every": 2, "overlap": "queue", "catch_up": 24, "session_id": session}


async def _at_any(team: Crew, method: str, body: dict[str, Any]) -> str:
    async with Api(team.named("gateway")[0].url) as api:
        return str((await api.post(URL, body, status=201))["schedule_id"])


async def _some_runs(team: Crew, names: Sequence[str]) -> None:
    """Wait until two more due times have had their runs."""
    first = await _count(team, names)
    await wait_until("more runs", lambda: _more(team, names, first + len(names)))


async def _more(team: Crew, names: Sequence[str], than: int) -> bool:
    return await _count(team, names) > than


async def _count(team: Crew, names: Sequence[str]) -> int:
    """The number of runs that have ended, as any gateway that answers tells it."""
    for gateway in team.named("gateway"):
        try:
            async with Api(gateway.url) as api:
                return sum([len([r for r in await history(api, n) if r["status"] == "completed"]) for n in names])
        except Exception:
            continue
    return 0


async def _ended(api: Api, name: str) -> list[dict[str, Any]]:
    found = await history(api, name)
    return [] if {run["status"] for run in found} & {"planned", "sending", "accepted", "running"} else found


def _is_whole(found: Sequence[dict[str, Any]]) -> None:
    """Each due time is there once, and each that was not skipped by the pause has been carried out."""
    due = [milliseconds(run["due_at"]) for run in found]
    assert [later - earlier for earlier, later in pairwise(due)] == [2000] * (len(due) - 1)
    assert {run["status"] for run in found} <= {"completed", "skipped"}, json.dumps(found, indent=1)
    assert all(run["reason"] == "the schedule was paused" for run in found if run["status"] == "skipped")
    assert sum(run["status"] == "completed" for run in found) >= 8


@pytest.mark.skipif(bool(clocks.missing()), reason=clocks.missing() or "")
async def test_an_outage_of_a_day_and_clocks_that_step_back(tmp_path: Path) -> None:
    made, server = clocks.Clocks(tmp_path / "clocks"), RedisServer("always")
    server.clock = made.environment("redis")
    counts = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1}
    with server:
        system = System(server.url, tmp_path / "run", counts, EACH_SECOND, clocks=made)
        async with system:
            [gateway] = system.named("gateway")
            async with Api(gateway.url) as api:
                one = await added(api, every=3600, content="hello")
                three = await added(api, every=3600, overlap="queue", catch_up=3, content="hello")
                none = await added(api, cron="0 * * * *", catch_up=0, content="hello")
                paused = await added(api, every=3600, content="hello")
                await api.post(f"{URL}/{paused}/pause", status=200)
            system.kill(gateway)
            made.step_all(86_400 + 1800)
            system.start(gateway)
            await system.ready(gateway)
            async with Api(gateway.url) as api:
                found = await has(api, one, "missed", "completed")
                assert milliseconds(found[0]["until"]) - milliseconds(found[0]["due_at"]) == 22 * 3_600_000
                assert milliseconds(found[1]["due_at"]) - milliseconds(found[0]["until"]) == 3_600_000
                found = await has(api, three, "missed", "completed", "completed", "completed")
                assert milliseconds(found[0]["until"]) - milliseconds(found[0]["due_at"]) == 20 * 3_600_000
                assert len(await has(api, none, "missed")) == 1
                assert await history(api, paused) == []
                resumed = await api.post(f"{URL}/{paused}/resume", status=200)
                made.step_all(3600)
                late = await has(api, one, "missed", "completed", "completed")
                await has(api, paused, "completed")
                made.step_all(-3 * 3600)
                again = await wait_until("the next due time to be computed anew", lambda: _due_again(api, one, late))
                assert await history(api, one) == late, "what has had its run has none again"
                assert milliseconds(again) - milliseconds(late[-1]["due_at"]) == 3_600_000
                assert (await api.get(f"{URL}/{paused}"))["next_at"] != resumed["next_at"]
                made.step_all(4 * 3600)
                found = await has(api, one, "missed", "completed", "completed", "completed")
                made.step_all(-5 * 86_400)
                await wait_until("a due time before the schedule was made", lambda: _due_before(api, one, found[0]))
                assert await history(api, one) == found


async def _due_before(api: Api, name: str, run: dict[str, Any]) -> bool:
    return bool((await api.get(f"{URL}/{name}"))["next_at"] < run["due_at"])


async def _due_again(api: Api, name: str, before: Sequence[dict[str, Any]]) -> str:
    """The next due time, once the schedule was written with the stepped clock."""
    shown = await api.get(f"{URL}/{name}")
    return str(shown["next_at"]) if shown["next_at"] > before[-1]["due_at"] else ""
