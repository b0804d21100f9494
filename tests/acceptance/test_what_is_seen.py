"""What is seen of a task in a running system, and what may be asked for of an answer, from the Python client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

SUM = ("calculator", {"expression": "1+2"})


@asynccontextmanager
async def system(folder: Path, script: Any, **settings: str) -> AsyncIterator[tuple[pentad.Agent, ScriptedModel]]:
    """A whole system with this model, and a client of it."""
    async with ScriptedModel(script) as model:
        given = {"LLM_BASE_URL": model.base_url, "PENTAD_PLUGINS": "tests.support.plugins.poet"} | settings
        with Up(folder, given, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            url = await up.ready()
            async with pentad.connect(url, admin_key=up.admin_key) as agent:
                yield agent, model


def calculates(request: dict[str, Any]) -> Reply:
    """Call the calculator, and say what it has said."""
    last = request["messages"][-1]
    return say(f"It is {last['content']}.") if last["role"] == "tool" else call(SUM)


async def test_an_answer_comes_with_its_trace_where_it_is_asked_for(tmp_path: Path) -> None:
    async with system(tmp_path, calculates) as (agent, _):
        session = agent.session("s1")
        first = await session.ask("add", trace=True)
        assert (first.value, first.steps) == ("It is 3.", 2)
        assert [(c.tool, c.args, c.result) for c in first.trace[0].calls] == [("calculator", SUM[1], "3")]
        assert first.trace[0].messages[0]["content"] == "add"
        assert first.usage.input_tokens == sum(step.usage.input_tokens for step in first.trace) > 0
        second = await session.ask("add again", task_id=first.task_id, trace=True)
        assert [step.step for step in second.trace] == [3, 4], "of this turn alone"
        run = await agent.run("executor", "add", trace=True)
        assert (run.value, run.steps, [step.step for step in run.trace]) == ("It is 3.", 2, [1, 2])
        assert (await agent.execute("executor", "add")).steps == 2


async def test_a_task_says_when_it_was_last_spoken_to_and_when_it_ended_also_from_its_record(tmp_path: Path) -> None:
    async with system(tmp_path, calculates) as (agent, _):
        traced = await agent.ask("add", trace=True)
        assert traced.task_id is not None
        task = await agent.inspection.task(traced.task_id)
        assert task.last_user_message_at == traced.trace[0].messages[0]["at"]
        assert task.completed_at is not None
        assert task.completed_at >= traced.trace[-1].at
        await agent.management.archive_task(traced.task_id)

        async def archived() -> bool:
            assert traced.task_id is not None
            return (await agent.inspection.task(traced.task_id)).archived_at is not None

        await wait_until("the record", archived)
        kept = await agent.inspection.task(traced.task_id)
        assert (kept.completed_at, kept.last_user_message_at) == (task.completed_at, task.last_user_message_at)
        assert await agent.inspection.steps(traced.task_id) == traced.trace


async def test_what_an_instruction_asks_of_answers_goes_before_the_environment_and_its_retry_ends_the_step(
    tmp_path: Path,
) -> None:
    def says_nothing_to_some(request: dict[str, Any]) -> Reply:
        return say("" if request["messages"][-1]["content"] == "silence" else "hi")

    async with system(tmp_path, says_nothing_to_some, LLM_TEMPERATURE="0.25", LLM_MAX_TOKENS="321") as (agent, model):
        await agent.management.register_instruction(
            "cool", system_prompt="Be cool.", temperature=0, max_tokens=55, retry=1
        )
        await agent.ask("one")
        run = await agent.execute("cool", "two")
        limits = [(chat["temperature"], chat["max_tokens"]) for chat in model.chats]
        assert limits == [(0.25, 321), (0, 55)]
        assert run.task_id is not None
        prompt = await agent.inspection.prompt(run.task_id, 1)
        assert (prompt.temperature, prompt.max_tokens, prompt.proved) == (0, 55, True)
        before = len(model.chats)
        failed = await agent.execute("cool", "silence")
        assert (failed.status, len(model.chats) - before) == ("failed", 1)
        with pytest.raises(pentad.Refused, match="temperature"):
            await agent.management.register_instruction("hot", system_prompt="Be hot.", temperature=3)
