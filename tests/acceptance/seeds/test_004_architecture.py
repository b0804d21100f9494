"""The document 004, the architecture, heading by heading, by public calls against a whole system."""

import json
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.shared.settings import load_settings
from tests.acceptance.seeds.rows import shown, walked
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say

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


async def test_each_agent_works_in_its_way(tmp_path: Path) -> None:
    async with system(tmp_path, llm_temperature=0.1) as (agent, script, server):
        sum_of = ("calculator", {"expression": "6*7"})
        agents = pentad.agents
        with walked("Agents", "What is aimed at"), shown("`SimpleAgent`"):
            simple = agents.SimpleAgent("talks", agent=agent, system_prompt="You are brief.")
            script.next = [say("hello")]
            assert await simple.run("hi") == "hello"
            assert "tools" not in script.asked[-1]
            assert script.asked[-1]["messages"][0]["content"].startswith("You are brief.")
        with walked("The agents' base class"), shown("`Agent` `name llm systemPrompt run"):
            simple.add_message("I am Mimi")
            await simple.run("who am I?")
            said = [line["content"] for line in await simple.get_history()]
            assert said == ["hi", "hello", "I am Mimi\n\nwho am I?", "good day"]
            simple.clear_history()
            assert await simple.get_history() == []
        with walked("How a UnifiedAgent works"), shown("`UnifiedAgent`"):
            script.next = [call(sum_of), say("it is 42")]
            assert await agents.UnifiedAgent("any", agent=agent, tools=["calculator"]).run("6*7?") == "it is 42"
            assert [tool["function"]["name"] for tool in script.asked[-1]["tools"]] == ["calculator"]
        with shown("`FunctionCallAgent`"):
            script.next = [call(sum_of), say("it is 42")]
            assert await agents.FunctionCallAgent("calls", agent=agent).run("6*7?") == "it is 42"
        with walked("The flow of data"), shown("`ReActAgent`"):
            script.next = [say('Thought: I count.\nAction: calculator\nAction Input: {"expression": "6*7"}')]
            script.next += [say("Thought: I know.\nFinal Answer: it is 42")]
            assert await agents.ReActAgent("reasons", agent=agent, tools=["calculator"]).run("6*7?") == "it is 42"
            assert script.asked[-1]["messages"][-1]["content"] == "Observation: 42"
        with walked("The six agents"), shown("`PlanSolveAgent`"):
            step = {"step": "count", "result": "42", "ok": True, "left": 0}
            script.next = [say('{"steps": ["count"]}'), say(json.dumps(step)), say("the plan says 42")]
            assert await agents.PlanSolveAgent("plans", agent=agent).run("6*7?") == "the plan says 42"
        with walked("How a MemoryAgent works"), shown("`MemoryAgent`"):
            note = ("memory_note", {"text": "Ann likes tea.", "importance": 0.8})
            script.next = [call(note), say("noted")]
            assert (
                await agents.MemoryAgent("remembers", agent=agent, user_id="ann").run("I am Ann, I like tea") == "noted"
            )
            assert "error" not in script.asked[-1]["messages"][-1]["content"]
        with walked("The tool-calling loop"), shown("`runToolCallingLoop`"):
            fields: dict[str, Any] = {"system_prompt": "Count.", "tools": ["calculator"], "tool_rounds": 1}
            await agent.management.register_instruction("once", **fields, calls="native")
            script.next = [call(sum_of), say("it is 42")]
            assert (await agent.execute("once", "6*7?")).steps == 2
        with walked("Variables of the LLM", "How an agent is added"), shown("`HelloAgentsLLM`"):
            assert script.asked[-1]["model"] == "scripted"
            assert script.asked[-1]["temperature"] == 0.1
            assert server.chats


async def test_tools_are_made_and_called_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[weather, forecast, Shelf()]) as (agent, script, _):
        tools = {tool["name"]: tool for tool in await agent.inspection.tools()}
        with (
            walked("The parts of tools", "How the system grows", "How a tool is added"),
            shown("`registerTool("),
        ):
            assert tools["weather"]["description"] == "Weather of a city right now."
            assert tools["forecast"]["parameters"]["properties"]["unit"] == {"enum": ["C", "F"]}
        with walked("The tool's base class"), shown("`getDefinitions()`, `toOpenAISchema()`"):
            assert tools["weather"]["parameters"]["required"] == ["city"]
        with shown("`ExpandableTool` (004)"):
            [put] = [name for name in tools if name.endswith("put")]
            assert await agent.tools.execute(put, {"title": "Emma"}) == "put Emma"
        with walked("The system of tools", "ToolExecutor"), shown("`ToolExecutor.execute(name, args)`"):
            assert await agent.tools.execute("weather", {"city": "Berlin"}) == "Berlin: 21 degrees, clear"
            assert await agent.tools.execute("forecast", {"city": "Berlin"}) == "Berlin: 22 C"
        with shown("`calculator`, `echo`"):
            assert await agent.tools.execute("calculator", {"expression": "2**10"}) == "1024"
            assert await agent.tools.execute("echo", {"text": "hello"}) == "hello"
        with shown("the calculator runs `new Function(expression)`"), pytest.raises(pentad.ToolFailed):
            await agent.tools.execute("calculator", {"expression": "__import__('os').getpid()"})
        with shown("a tool's error is told to the model, which goes on"):
            script.next = [call(("calculator", {"expression": "1/0"})), say("that cannot be")]
            assert await agent.ask("divide by zero") == "that cannot be"
            assert "zero" in script.asked[-1]["messages"][-1]["content"]


def test_the_stores_are_chosen_by_the_documents_variables() -> None:
    with (
        walked("Configuration by variables", "Variables of Qdrant", "Variables of Neo4j", "Qdrant and Neo4j"),
        shown("Qdrant and Neo4j by their variables"),
    ):
        named = {"QDRANT_URL": "https://q.example", "QDRANT_API_KEY": "k", "NEO4J_URI": "bolt://n.example"}
        named |= {"NEO4J_USERNAME": "neo", "NEO4J_PASSWORD": "p"}
        settings = load_settings(named)
        assert (settings.qdrant_url, settings.neo4j_uri) == ("https://q.example", "bolt://n.example")
        assert settings.neo4j_username == "neo"
        assert load_settings({}).qdrant_url is None
