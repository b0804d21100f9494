"""What a message does that comes during a turn, as people meet it: instructions of a file, the Python client."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.contracts.events import Content, MessageEvent, TaskEnd
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

POLICIES = ("steer", "queue", "interrupt")
IN_FILE = [{"name": name, "system_prompt": "Count.", "tools": [], "on_message": name} for name in POLICIES]


class Counting:
    """A model that stops in the middle of its answer to "count", until it is let go on, and echoes everything else."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def __call__(self, request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]["content"]
        if last == "count to two":
            return say("one two", chunks=2, wait=self.go_on, wait_after=2)
        return say(f"so: {last}")


@asynccontextmanager
async def system(folder: Path) -> AsyncIterator[tuple[Up, pentad.Agent, ScriptedModel, Counting]]:
    counting = Counting()
    async with ScriptedModel(counting) as model:
        (file := folder / "instructions.json").write_text(json.dumps({"instructions": IN_FILE}))
        settings = {"LLM_BASE_URL": model.base_url, "PENTAD_INSTRUCTIONS": str(file)}
        with Up(folder, settings, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            async with pentad.connect(await up.ready()) as agent:
                yield up, agent, model, counting


async def turn_of(agent: pentad.Agent, text: str, policy: str) -> list[Any]:
    """The events of a message's turn, up to its end."""
    return [event async for event in agent.send(text, session_id=policy, instruction=policy)]


async def begun(agent: pentad.Agent, model: ScriptedModel, policy: str) -> "asyncio.Task[list[Any]]":
    """A turn whose model call stays in its middle."""
    seen = len(model.chats)
    turn = asyncio.create_task(turn_of(agent, "count to two", policy))
    await wait_until("the model to be asked", lambda: len(model.chats) > seen)
    return turn


def said(events: list[Any]) -> list[tuple[str, str | None]]:
    return [(event.content, event.finish_reason) for event in events if isinstance(event, MessageEvent)]


async def test_steer_queue_and_interrupt_side_by_side(tmp_path: Path) -> None:
    async with system(tmp_path) as (_, agent, model, counting):
        first = {policy: await begun(agent, model, policy) for policy in POLICIES}
        second = {policy: asyncio.create_task(turn_of(agent, "and three", policy)) for policy in POLICIES}
        cut, after = await asyncio.wait_for(asyncio.gather(first["interrupt"], second["interrupt"]), PATIENCE_S)
        assert not counting.go_on.is_set(), "nobody has waited for the answer that was cut"
        assert said(cut) == [("one ", "interrupted"), ("so: and three", "stop")]
        assert said(after)[-1] == ("so: and three", "stop")
        routed = {p: len([t for t in await agent.inspection.tasks() if t.instruction == p]) for p in POLICIES}
        assert routed == {"steer": 1, "queue": 1, "interrupt": 1}
        counting.go_on.set()
        steered, queued = await asyncio.gather(first["steer"], first["queue"])
        assert said(steered) == [("one two", "stop"), ("so: and three", "stop")]
        assert said(queued) == [("one two", "stop")], "its turn ends without the message that waits"
        assert said(await second["steer"])[-1] == said(await second["queue"])[-1] == ("so: and three", "stop")
        ends = [event.correlation_id for event in await second["queue"] if isinstance(event, TaskEnd)]
        assert len(ends) == 2, "of the turn before, and its own"
        tasks = {task.instruction: task.task_id for task in await agent.inspection.tasks()}
        for policy, answer in (("steer", "one two"), ("queue", "one two"), ("interrupt", "one ")):
            transcript = await agent.inspection.transcript(tasks[policy])
            assert [m["content"] for m in transcript.messages] == [
                "count to two", answer, "and three", "so: and three"
            ], policy  # fmt: skip


@pytest.mark.slow
async def test_an_interrupted_task_outlives_the_death_of_everything(tmp_path: Path) -> None:
    async with system(tmp_path) as (up, agent, model, _):
        turn = await begun(agent, model, "interrupt")
        again = asyncio.create_task(turn_of(agent, "and three", "interrupt"))
        await wait_until("the call to be cut", lambda: model.seen.dropped > 0)
        up.kill_everything()
        up.start()
        await up.ready()
        events = await asyncio.wait_for(turn, PATIENCE_S)
        await asyncio.wait_for(again, PATIENCE_S)
        assert said(events)[-1][0].startswith("so: ")
        (task,) = await agent.inspection.tasks()
        lines = (await agent.inspection.transcript(task.task_id)).messages
        users = [m["content"] for m in lines if m["role"] == "user"]
        assert users == ["count to two", "and three"]
        assert [m["content"] for m in lines].count("one ") <= 1
        assert any(isinstance(event, Content) for event in events)


async def test_a_policy_that_there_is_not_is_refused_where_it_is_said(tmp_path: Path) -> None:
    (file := tmp_path / "i.json").write_text(json.dumps({"instructions": [{**IN_FILE[0], "on_message": "ignore"}]}))
    with Up(tmp_path, {"PENTAD_INSTRUCTIONS": str(file)}) as up:
        assert await up.ended() != 0
    assert f"{file}: instructions[0] ('steer').on_message: " in up.err
    assert "'steer', 'queue' or 'interrupt'" in up.err
