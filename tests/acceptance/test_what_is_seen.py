"""What is seen of a task in a running system, and what may be asked for of an answer, from the Python client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


class Trip(BaseModel):
    """A trip with a default and a rule that its schema does not tell."""

    city: str
    days: int = Field(default=3, ge=1)
    tags: list[str] = []

    @field_validator("city")
    @classmethod
    def _is_no_nowhere(cls, city: str) -> str:
        if city == "nowhere":
            raise ValueError("there is no nowhere")
        return city


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
        await agent.management.register_model(
            "other", endpoint=model.base_url, model="m", parameters={"temperature": 0.5}
        )
        await agent.management.register_instruction("plain", system_prompt="Be plain.", model="other")
        await agent.run("plain", "three")
        assert (model.chats[-1]["temperature"], model.chats[-1]["max_tokens"]) == (0.5, 321)
        assert run.task_id is not None
        prompt = await agent.inspection.prompt(run.task_id, 1)
        assert (prompt.temperature, prompt.max_tokens, prompt.proved) == (0, 55, True)
        before = len(model.chats)
        failed = await agent.execute("cool", "silence")
        assert (failed.status, len(model.chats) - before) == ("failed", 1)
        with pytest.raises(pentad.Refused, match="temperature"):
            await agent.management.register_instruction("hot", system_prompt="Be hot.", temperature=3)


async def test_an_answer_is_an_instance_of_the_model_that_is_asked_for_with_its_defaults_filled(
    tmp_path: Path,
) -> None:
    answers = {"oslo": ['{"city": 5}', '{"city": "Oslo"}'], "nowhere": ['{"city": "nowhere"}']}

    def planned(request: dict[str, Any]) -> Reply:
        said = next(m["content"] for m in request["messages"][::-1] if m["content"] in ("oslo", "nowhere", "plain"))
        return say(answers[said].pop(0) if said in answers else "just words")

    async with system(tmp_path, planned) as (agent, model):
        assert await agent.ask("oslo", output=Trip) == Trip(city="Oslo", days=3, tags=[])
        system_prompt = model.chats[0]["messages"][0]["content"]
        assert '"minimum":1' in system_prompt, "the model is told the schema"
        assert len(model.chats) == 2, "what does not fit is asked for again"
        answers["oslo"] = ['{"city": "Oslo", "days": 9}'] * 2
        traced = await agent.ask("oslo", output=Trip, trace=True)
        assert (traced.value.days, traced.steps) == (9, 1)
        await agent.management.register_instruction("planner", system_prompt="Plan.")
        assert await agent.run("planner", "oslo", output=Trip) == Trip(city="Oslo", days=9)
        assert await agent.run("planner", "plain") == "just words", "the instruction is as it was"
        with pytest.raises(pentad.WrongAnswer, match=r"city: .*there is no nowhere") as wrong:
            await agent.ask("nowhere", output=Trip)
        assert wrong.value.answer == '{"city":"nowhere"}'
        answers["oslo"] = ["[1,2]"]
        assert await agent.ask("oslo", output=list[int]) == [1, 2]


async def test_an_output_that_cannot_be_is_refused_before_anything_runs(tmp_path: Path) -> None:
    async with system(tmp_path, lambda _: say("hi")) as (agent, model):
        with pytest.raises(pentad.Refused, match="task_id"):
            await agent.ask("hi", output=Trip, task_id="task-0-a", session_id="s1")
        with pytest.raises(pentad.Refused, match="has no JSON schema"):
            await agent.ask("hi", output=type("Plain", (), {}))
        wrong = {"type": "object", "properties": {"a": {"type": "nothing"}}}
        with pytest.raises(pentad.Refused, match="output_schema"):
            await agent.execute("executor", "hi", output_schema=wrong)
        with pytest.raises(pentad.ClientError, match="output_schema has more than"):
            await agent.execute("executor", "hi", output_schema={"description": "x" * 40_000})
        assert model.chats == []
