"""Tools and the facade of the documents, by public calls against a whole system and a scripted model."""

import asyncio
import logging
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import pentad
from tests.acceptance.seeds.rows import shown
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say
from tests.support.waiting import in_time

pytestmark = pytest.mark.acceptance

CELSIUS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
}


def weather(city: str) -> str:
    """Weather of a city right now."""
    return f"{city}: 21 degrees, clear"


@pentad.tool(parameters=CELSIUS)
def forecast(city: str, unit: str = "C") -> str:
    """Weather of a city tomorrow."""
    return f"{city}: 22 {unit}"


class Shelf(pentad.ExpandableTool):
    """A shelf of books."""

    @pentad.action
    async def put(self, title: str) -> str:
        """Put a book on the shelf."""
        return f"put {title}"

    @pentad.action
    async def count(self) -> int:
        """Count the books."""
        return 1


async def test_tools_are_made_and_called_as_in_the_documents(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    async def meet(who: str) -> str:
        """Wait until another call runs too."""
        async with in_time():
            await together.wait()
        return f"{who} was there"

    async with system(tmp_path, tools=[weather, forecast, Shelf(), meet]) as (agent, script, _):
        tools = {tool["name"]: tool for tool in await agent.inspection.tools()}
        with shown("`registerTool(definition, executor)` (001)"):
            assert tools["weather"]["description"] == "Weather of a city right now."
            assert tools["forecast"]["parameters"]["properties"]["unit"] == {"enum": ["C", "F"]}
        with shown("`getDefinitions()`, `toOpenAISchema()`"):
            assert tools["weather"]["parameters"]["required"] == ["city"]
        with shown("`ExpandableTool` (004)"):
            [put] = [name for name in tools if name.endswith("put")]
            assert await agent.tools.execute(put, {"title": "Emma"}) == "put Emma"
        with shown("`ToolExecutor.execute(name, args)`"):
            assert await agent.tools.execute("weather", {"city": "Berlin"}) == "Berlin: 21 degrees, clear"
            assert await agent.tools.execute("forecast", {"city": "Berlin"}) == "Berlin: 22 C"
        with shown("`calculator`, `echo`"):
            assert await agent.tools.execute("calculator", {"expression": "2**10"}) == "1024"
            assert await agent.tools.execute("echo", {"text": "hello"}) == "hello"
        with shown("the calculator runs `new Function(expression)`"), pytest.raises(pentad.ToolFailed):
            await agent.tools.execute("calculator", {"expression": "__import__('os').getpid()"})
        with shown("tools of one answer run at once"):
            script.next = [call(("meet", {"who": "Ann"}), ("meet", {"who": "Bob"})), say("both met")]
            async with in_time():
                traced = await agent.ask("let them meet", trace=True)
            assert [each.result for each in traced.trace[0].calls] == ["Ann was there", "Bob was there"]
        with shown("a tool's error is told to the model, which goes on"):
            script.next = [call(("calculator", {"expression": "1/0"})), say("that cannot be")]
            assert await agent.ask("divide by zero") == "that cannot be"
            assert "zero" in script.asked[-1]["messages"][-1]["content"]


async def test_an_agent_is_created_used_and_shut_down_as_in_the_documents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the-argument-that-nobody-prints"
    heard = logging.getLogger("seeds")
    haiku = {"name": "haiku", "system_prompt": "You write haiku."}
    given: dict[str, Any] = {"models": [{"id": "spare", "protocol": "offline"}], "instructions": [haiku]}
    given |= {"tools": [weather], "logger": heard, "pentad_log_level": "debug"}
    heard.setLevel(logging.DEBUG)
    with caplog.at_level(logging.DEBUG, "seeds"):
        async with system(tmp_path, **given) as (agent, script, _):
            with shown("`createAgent(config)` (000, 002)"):
                assert "spare" in {each["id"] for each in await agent.inspection.models()}
                assert (await agent.inspection.instruction("haiku"))["system_prompt"] == "You write haiku."
                assert "weather" in {each["name"] for each in await agent.inspection.tools()}
            with shown("`agent.run(input)` → text (001)"):
                assert await agent.ask("hello") == "good day"
            with shown("`trace`, `steps` of a result (004)"):
                script.next = [call(("echo", {"text": secret})), say("it is said")]
                traced = await agent.ask("say it", trace=True)
                assert (traced.value, traced.steps) == ("it is said", 2)
                assert (await agent.execute("haiku", "spring")).steps == 1
            address = (tmp_path / "gateway.url").read_text().strip()
            with shown("HTTP, SSE, monitoring"), await asyncio.to_thread(urlopen, f"{address}/metrics") as answer:
                assert b"pentad_" in answer.read()
            with shown("`inspection`, `management`, `shutdown`"):
                other = pentad.connect(address)
                assert await other.inspection.tasks() == await agent.inspection.tasks()
                with pytest.raises(pentad.NotFound):
                    await other.management.cancel_task("task-0-nobody")
                await other.shutdown()
    with shown("`Logger` given to the agent"):
        assert {record.name for record in caplog.records if record.name.startswith("pentad")}
    with shown("`verbose` (001)"):
        assert "tool_calls" in caplog.text
    with shown("tool arguments are printed with `verbose`"):
        assert secret not in caplog.text


async def test_a_run_tells_its_callbacks_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[weather]) as (agent, script, _):
        told: list[Any] = []

        async def ended(event: pentad.ToolResultEvent) -> None:
            told.append(("end", event.tool, event.result))

        with shown("`runStream(input, {onText, onToolStart, onToolEnd, onComplete})` (001)"):
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


async def test_a_long_conversation_is_not_cut(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, script, _):
        with shown("`ConversationMemory` cuts to 50 messages"):
            ada = agent.session("seeds", user_id="ada")
            turn = ada.turn("number 0")
            assert [event async for event in turn]
            for number in range(1, 30):
                await ada.ask(f"number {number}", task_id=turn.task_id)
            said = [m["content"] for m in script.asked[-1]["messages"] if m["role"] == "user"]
            assert said == [f"number {number}" for number in range(30)]
