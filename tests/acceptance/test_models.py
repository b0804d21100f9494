"""Several models in a running system: a main one that fails often, a spare one, and one that is registered later."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import Reply, cut, fail, say
from tests.support.processes.up import Up
from tests.support.redis.bus_client import Bus
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

TASKS = 200


@asynccontextmanager
async def system(folder: Path, main: Script) -> AsyncIterator[tuple[pentad.Agent, Bus, ScriptedModel, ScriptedModel]]:
    """``pentad up`` with a file of two models."""
    async with ScriptedModel(main) as first, ScriptedModel(lambda _: say("from the spare")) as second:
        entries: list[dict[str, Any]] = [
            {"id": "main", "endpoint": first.base_url, "model": "m1", "default": True, "fallbacks": ["spare"]},
            {"id": "spare", "endpoint": second.base_url, "model": "m2", "prices": {"input": 1.0}},
        ]
        (file := folder / "models.json").write_text(json.dumps({"models": entries}))
        with Up(folder, {"PENTAD_MODELS": str(file), "PENTAD_GRACE_S": "60"}) as up:
            url = await up.ready()
            async with Bus(up.redis_url) as bus, pentad.connect(url, admin_key=up.admin_key) as agent:
                yield agent, bus, first, second


async def states(agent: pentad.Agent) -> dict[str, str]:
    return {model["id"]: model["health"]["state"] for model in await agent.inspection.models()}


@pytest.mark.slow
async def test_200_tasks_complete_while_the_main_model_fails_three_calls_of_ten(tmp_path: Path) -> None:
    """Seeded. It is left alone while it fails, and asked again."""
    chance, failures = random.Random(3), [fail(500), fail(503), fail(429, retry_after=1), cut(2)]

    def script(_: object) -> Reply:
        return chance.choice(failures) if chance.random() < 0.3 else say("from the main one")

    sent: list[str] = []
    async with system(tmp_path, script) as (agent, bus, main, spare):

        async def go(tasks: int) -> None:
            for _ in range(tasks):
                sent.append(f"s{len(sent)}")
                await bus.send("go", sent[-1])

        async def becomes(*wanted: str) -> bool:
            await go(5)
            return (await states(agent))["main"] in wanted

        await go(TASKS)
        await wait_until("the main model to be left alone", lambda: becomes("open", "probing"))
        main.script = lambda _: say("from the main one")
        await wait_until("the main model to be asked again", lambda: becomes("ok", "failing"))
        ends = [(await bus.until(name, "task_end"))[0] for name in sent]
    print(f"\n{len(ends)} tasks; {len(main.chats)} calls of the main model, {len(spare.chats)} of the spare")
    assert {end["status"] for end in ends} == {"completed"}
    assert sum(end["usage"]["usd"] for end in ends) > 0, "the spare has a price"


async def test_a_model_that_is_registered_answers_within_two_seconds_in_every_process(tmp_path: Path) -> None:
    async with (
        system(tmp_path, lambda _: fail(401)) as (agent, bus, main, _),
        ScriptedModel(lambda _: say("from the new one")) as new,
    ):
        shown = await agent.management.register_model("new", endpoint=new.base_url, model="m3")
        assert shown["health"]["state"] == "unknown"

        async def known() -> bool:
            return (await states(agent)).get("new") == "ok"

        await wait_until("the task-runner to tell of it", known)
        await bus.send("go", "s1")
        (end,) = await bus.until("s1", "task_end")
        assert end["status"] == "completed"
        (message,) = await bus.events("s1", "message")
        assert (message["content"], message["model_id"]) == ("from the spare", "spare")
        transcript = await agent.inspection.transcript(end["task_id"])
        assert transcript.messages[-1]["model_id"] == "spare"
        await wait_until("the wrong key to be told", lambda: _main_is(agent, "open"))
        await agent.management.delete_model("new")
        assert len(main.chats) == 1


async def _main_is(agent: pentad.Agent, state: str) -> bool:
    return (await states(agent))["main"] == state
