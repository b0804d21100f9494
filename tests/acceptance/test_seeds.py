"""The names of docs/seeds.md do what the five design documents say of them, by public calls against a whole system."""

import logging
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def weather(city: str) -> str:
    """Weather of a city right now."""
    return f"{city}: 21 degrees, clear"


def given(folder: Path) -> dict[str, Any]:
    """What a program of the second document hands to `createAgent`."""
    model = {"id": "spare", "protocol": "offline"}
    haiku = {"name": "haiku", "description": "Writes one.", "system_prompt": "You write haiku.", "output": "stream"}
    return {"data_dir": folder, "models": [model], "instructions": [haiku], "tools": [weather]}


async def test_one_program_has_what_create_agent_is_given(tmp_path: Path) -> None:
    heard = logging.getLogger("seeds")
    async with pentad.start(logger=heard, **given(tmp_path)) as agent:
        assert "spare" in {each["id"] for each in await agent.inspection.models()}
        assert (await agent.inspection.model("spare"))["id"] == "spare"
        assert (await agent.inspection.instruction("haiku"))["system_prompt"] == "You write haiku."
        assert {"weather", "calculator"} <= {each["name"] for each in await agent.inspection.tools()}

        assert await agent.tools.execute("weather", {"city": "Berlin"}) == "Berlin: 21 degrees, clear"
        with pytest.raises(pentad.ToolFailed):
            await agent.tools.execute("calculator", {"expression": "1/0"})
        completion = await agent.models.complete([{"role": "user", "content": "hello"}], model="spare")
        assert completion.content
        assert completion.finish_reason == "stop"
        [one, other] = await agent.models.embed(["tea", "coffee"])
        assert len(one) == len(other) > 100

        traced = await agent.ask("what is 2**10?", trace=True)
        assert "1024" in traced.value
        assert [call.tool for step in traced.trace for call in step.calls] == ["calculator"]


async def test_a_task_is_seen_step_by_step_and_found_in_memory(tmp_path: Path) -> None:
    async with pentad.start(**given(tmp_path)) as agent:
        alice = agent.session("seeds", user_id="alice")
        events = [event async for event in alice.send("My cat is called Tom. What is 6*7?")]
        [begun] = [event for event in events if isinstance(event, pentad.TaskStart)]
        assert begun.task_id is not None
        task = await agent.inspection.task(begun.task_id)
        assert task.status == "completed"
        assert task.completed_at
        assert task.last_user_message_at
        steps = await agent.inspection.steps(task.task_id)
        assert [step.step for step in steps] == list(range(1, len(steps) + 1))
        assert steps[0].model

        async def remembered() -> bool:
            try:
                return bool(await agent.inspection.search_memory("what is my cat called?", user_id="alice"))
            except pentad.GatewayUnreachable:  # on a busy machine the memory may need longer than a search waits
                return False

        await wait_until("the cat to be remembered", remembered)
        found = await agent.inspection.recall("what is my cat called?", user_id="alice")
        assert task.task_id in {each.task_id for each in found.tasks}
        opened = await agent.inspection.expand(found.hits[0].anchor, whole=True)
        assert opened.whole is not None
        assert opened.whole.task.task_id == task.task_id
        assert pentad.anchor_of(found.hits[0].anchor).task_id == task.task_id
        stats = await agent.inspection.memory_stats()
        assert stats.tasks == 1
        assert stats.segments > 0


async def test_a_page_and_a_program_speak_for_a_session(tmp_path: Path) -> None:
    async with pentad.start(**given(tmp_path)) as agent:
        token = await agent.session("page").token(may=("read", "send"), ttl_s=60)
        assert token.token
        assert token.expires_at
        hello = [{"role": "user", "content": "hello"}]
        [last] = [piece async for piece in agent.models.complete(hello, stream=True) if piece.finished]
        assert last.completion is not None
        assert last.completion.content
