"""Agents of each way to work, as objects: thin faces over tasks."""

import json
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, fail, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, Up

pytestmark = pytest.mark.acceptance

SUM = ("calculator", {"expression": "6*7"})
ACT = 'Thought: I count.\nAction: calculator\nAction Input: {"expression": "6*7"}'


def script(request: dict[str, Any]) -> Reply:
    """A model that plans, counts and answers; the one that is called ``plain`` takes no tools."""
    system, *messages = request["messages"]
    last = messages[-1]["content"] or ""
    if request["model"] == "plain" and request.get("tools"):
        return fail(400, message="plain does not support tools")
    if "You plan how" in system["content"]:
        return say('{"steps": ["count"]}')
    if "You carry out" in system["content"]:
        counted = any(m["role"] == "tool" for m in messages)
        done = {"step": "count", "result": "42", "ok": True, "left": 0}
        return say(json.dumps(done)) if counted else call(SUM)
    if "Answer the user with what" in system["content"]:
        return say("The plan says 42")
    if "Thought:" in system["content"]:
        return say("Thought: I have it.\nFinal Answer: It is 42") if last.startswith("Observation") else say(ACT)
    if request.get("tools") and messages[-1]["role"] != "tool":
        return call(SUM)
    return say(f"{system['content'].partition('.')[0]}: {last}")


async def test_each_agent_works_in_its_way_and_keeps_its_conversation(tmp_path: Path) -> None:
    async with ScriptedModel(script) as model:
        settings = {"LLM_BASE_URL": model.base_url, "LLM_MODEL_ID": "plain", "PENTAD_RECALL_TOKENS": "0"}
        with Up(tmp_path, settings, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            url = await up.ready()
            async with pentad.connect(url, admin_key=up.admin_key) as system:
                simple = pentad.agents.SimpleAgent("simple-one", agent=system, system_prompt="You are brief.")
                assert await simple.run("hello") == "You are brief: hello"
                simple.add_message("I am Mimi")
                assert await simple.run("who am I?") == "You are brief: I am Mimi\n\nwho am I?"
                assert [line["content"] for line in await simple.get_history()] == [
                    "hello",
                    "You are brief: hello",
                    "I am Mimi\n\nwho am I?",
                    "You are brief: I am Mimi\n\nwho am I?",
                ]
                simple.clear_history()
                assert await simple.get_history() == []
                tools = ["calculator"]
                react = pentad.agents.ReActAgent("react-one", agent=system, tools=tools)
                assert await react.run("6*7?") == "It is 42"
                unified = pentad.agents.UnifiedAgent("unified-one", agent=system, tools=tools)
                assert await unified.run("6*7?") == "It is 42"
                await system.management.register_model("able", model="able", endpoint=model.base_url)
                calls = pentad.agents.FunctionCallAgent("calls-one", agent=system, llm="able", tools=tools)
                assert (await calls.run("6*7?")).endswith(": 42")
                plans = pentad.agents.PlanSolveAgent("plans-one", agent=system, llm="able", tools=tools)
                assert await plans.run("6*7?") == "The plan says 42"
                memory = pentad.agents.MemoryAgent("memory-one", agent=system, llm="able", tools=[])
                assert (await memory.run("hi")).endswith(": hi")
            made = {tool["function"]["name"] for chat in model.chats for tool in chat.get("tools") or ()}
            assert "calculator" in made
