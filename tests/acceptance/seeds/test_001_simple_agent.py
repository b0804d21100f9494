"""The document 001, the Simple Agent, heading by heading, by public calls against a whole system."""

from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.acceptance.seeds.rows import shown, walked
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

PROMPT = "You are a helpful assistant."
HOTTER = "which is hotter, Beijing or Shanghai?"


def get_weather(city: str) -> str:
    """Weather of a city."""
    return {"Beijing": "22 degrees", "Shanghai": "28 degrees"}[city]


def weather(city: str) -> str:
    """Weather of a city right now."""
    return f"{city}: 21 degrees, clear"


async def test_the_example_runs_with_its_two_iterations(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[get_weather]) as (agent, script, _):
        with walked("4. Configuration of the agent"):
            limits: dict[str, Any] = {"tool_rounds": 10, "max_tokens": 4096, "temperature": 0.7}
            names = ["calculator", "get_weather"]
            await agent.management.register_instruction("helper", system_prompt=PROMPT, tools=names, **limits)
        with walked("The whole example", "Example of its use", "Core classes"):
            script.next = [call(("calculator", {"expression": "(15 + 27) * 3 - 42 / 6"})), say("the answer is 119")]
            assert await agent.run("helper", "calculate (15 + 27) * 3 - 42 / 6") == "the answer is 119"
            assert [message["content"] for message in script.asked[-1]["messages"] if message["role"] == "tool"] == [
                "119"
            ]
            sent = script.asked[-1]
            assert (sent["max_tokens"], sent["temperature"]) == (4096, 0.7)
            assert sent["messages"][0]["content"].startswith(PROMPT)
        with walked("2. Definition of a tool"):
            [offered] = [tool for tool in sent["tools"] if tool["function"]["name"] == "get_weather"]
            assert offered["function"]["description"] == "Weather of a city."
            assert offered["function"]["parameters"]["properties"]["city"]["type"] == "string"
            assert offered["function"]["parameters"]["required"] == ["city"]
        cities = [("get_weather", {"city": "Beijing"}), ("get_weather", {"city": "Shanghai"})]
        script.next = [call(*cities, text="let me look"), say("Shanghai, by 6 degrees")]
        with walked("3. Agent"):
            traced = await agent.run("helper", HOTTER, trace=True)
            assert traced.value == "Shanghai, by 6 degrees"
            assert "calculate" not in str(script.asked[-1]["messages"]), "a run begins with a history of its own"
        first, second = traced.trace
        with walked("The loop in detail", "The first iteration"):
            assert [(each.tool, each.args, each.result) for each in first.calls] == [
                (*cities[0], "22 degrees"),
                (*cities[1], "28 degrees"),
            ]
        with walked("The second iteration"):
            assert (second.calls, second.messages[-1]["content"]) == ([], "Shanghai, by 6 degrees")
        with walked("Core types", "1. Messages"):
            messages = (await agent.inspection.transcript(traced.task_id or "")).messages
            assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
            assert messages[1]["content"] == "let me look"
            asked = [each["id"] for each in messages[1]["tool_calls"]]
            assert [message["tool_call_id"] for message in messages[2:4]] == asked


async def test_the_tests_that_the_document_asks_for(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[get_weather], pentad_step_limit=2) as (agent, script, _):
        with walked("Overview", "How it is tested"):
            assert await agent.ask("hello") == "good day"
            script.next = [call(("calculator", {"expression": "2+2"})), say("it is 4")]
            assert await agent.ask("calculate 2+2") == "it is 4"
        with walked("Key decisions", "4. How errors are handled"):
            script.next = [call(("get_weather", {"city": "Atlantis"})), say("there was an error")]
            assert await agent.ask("use the failing tool") == "there was an error"
            assert "KeyError" in script.asked[-1]["messages"][-1]["content"]
        with walked("2. ToolManager"):
            script.next = [call(("nonsense", {})), say("I cannot do that")]
            assert await agent.ask("use a tool that there is not") == "I cannot do that"
            assert "nonsense" in script.asked[-1]["messages"][-1]["content"]
        script.next = [call(("calculator", {"expression": "1+1"}))] * 2
        with walked("2. Why maxIterations is needed"), pytest.raises(pentad.TurnFailed, match="step_limit"):
            await agent.ask("loop forever")


async def test_a_run_tells_its_callbacks_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[weather]) as (agent, script, _):
        told: list[Any] = []

        async def ended(event: pentad.ToolResultEvent) -> None:
            told.append(("end", event.tool, event.result))

        with (
            walked("Further abilities", "1. Streamed answers"),
            shown("`runStream("),
        ):
            script.next = [call(("weather", {"city": "Rome"})), say("it is warm", chunks=2)]
            answer = await agent.run(
                "executor",
                "how is Rome?",
                on_text=told.append,
                on_tool_start=lambda event: told.append(("start", event.tool)),
                on_tool_end=ended,
                on_complete=lambda value: told.append(("complete", value)),
            )
            assert answer == "it is warm"
            assert told[:2] == [("start", "weather"), ("end", "weather", "Rome: 21 degrees, clear")]
            assert "".join(told[2:-1]) == "it is warm"
            assert told[-1] == ("complete", "it is warm")
        with pytest.raises(pentad.NotFound):
            await agent.run("nobody", "hello", on_text=told.append)

        def breaks(_: str) -> None:
            raise ValueError("on purpose")

        with pytest.raises(ValueError, match="on purpose"):
            await agent.run("executor", "hello", on_text=breaks)


async def test_hooks_change_and_block_what_an_agent_does_as_in_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKING", str(tmp_path))
    given: dict[str, Any] = {"plugins": ["tests.support.plugins.hooking"], "pentad_tool_env": ("HOOKING",)}
    async with system(tmp_path, **given) as (agent, script, _):

        async def known() -> bool:
            await agent.ask("are you there?")
            return (tmp_path / "told").exists()

        await wait_until("the hooks to be known", known)
        (tmp_path / "before_model").write_text("mark")
        with walked("2. Hooks"), shown("`AgentHooks`"):
            script.next = [
                call(("echo", {"text": "forbidden"}), ("echo", {"text": "my secret"})),
                say("a bad answer"),
            ]
            assert await agent.run("executor", "use your tools") == "a good answer"
            first, second = (request["messages"] for request in script.asked[-2:])
            assert first[0]["content"].endswith(" Be brief.")
            blocked, changed = (message["content"] for message in second if message["role"] == "tool")
            assert "that is forbidden" in blocked
            assert changed == "my ******"


async def test_a_long_conversation_is_cut_or_summarised(tmp_path: Path) -> None:
    """`maxMessages` is `max_messages` of an instruction; `summarize()` is done where a window would be passed."""
    brief = {"name": "brief", "system_prompt": "You are brief.", "max_messages": 10}
    async with system(tmp_path, instructions=[brief], llm_context_tokens=4_000) as (agent, script, _):
        script.by_prompt["You shorten"] = say("The numbers were said.")
        with walked("3. Memory of a conversation"), shown("`ConversationMemory` cuts to 50 messages, `summarize()`"):
            ada = agent.session("seeds", user_id="ada")
            for instruction, text in (("brief", "number"), ("executor", "word " * 120)):
                turn = ada.turn(f"{text} 0", instruction=instruction, task_id="new")
                assert [event async for event in turn]
                for number in range(1, 20):
                    await ada.ask(f"{text} {number}", task_id=turn.task_id)
                asked = script.asked[-1]["messages"]
                assert asked[-1]["content"] == f"{text} 19"
                assert len(asked) < 20
                stands = "[Left out here:" if instruction == "brief" else "[Summary of the conversation up to message"
                assert asked[1]["content"].startswith(stands)
                transcript = await agent.inspection.transcript(turn.task_id or "")
                said = [
                    line["content"] for line in transcript.messages if line["role"] == "user" and "origin" not in line
                ]
                assert said == [f"{text} {number}" for number in range(20)]
