"""Chapter 2: a Python function becomes a tool. See ``my_tools.py`` beside this file."""

import httpx2

import pentad
from pentad.contracts.events import MessageEvent, ToolProgress, ToolResultEvent
from tests.fundamentals.conftest import Running


async def test_a_function_of_yours_is_called(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("weather in Beijing?")]

    result = next(event for event in events if isinstance(event, ToolResultEvent))
    assert (result.tool, result.result) == ("weather", "31 degrees, clear")


async def test_its_schema_comes_from_signature_and_docstring(running: Running) -> None:
    async with httpx2.AsyncClient(base_url=running.url, trust_env=False) as http:
        tools = {tool["name"]: tool for tool in (await http.get("/v1/tools")).json()["items"]}

    assert tools["weather"]["effect"] == "pure"
    assert tools["weather"]["description"] == "Weather of a city right now."
    city = tools["weather"]["parameters"]["properties"]["city"]
    assert (city["type"], city["description"]) == ("string", "Name of the city, in English.")
    # The context is filled in by the worker; the model never hears of it.
    assert list(tools["bake"]["parameters"]["properties"]) == ["cake"]


async def test_an_exception_is_a_result_and_the_model_is_told(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("weather in Atlantis")]

    result = next(event for event in events if isinstance(event, ToolResultEvent))
    assert result.error is not None
    assert "no weather station in Atlantis" in result.error
    # The turn goes on: what to make of it is the model's business.
    answer = next(event for event in events if isinstance(event, MessageEvent))
    assert "no weather station in Atlantis" in answer.content
    assert events[-1].type == "task_end"
    assert events[-1].status == "completed"


async def test_a_long_call_says_how_far_it_is(agent: pentad.Agent, running: Running) -> None:
    progress = []
    # `metadata` is what your product knows of the message: tools have it, the model does not.
    async for event in agent.send("bake apple", metadata={"table": "7"}):
        if isinstance(event, ToolProgress):
            progress.append((event.content, event.fraction))
            (running.kitchen / "apple.open").touch()
        last = event

    assert progress == [("apple is in the oven for table 7", 0.5)]
    assert last.type == "task_end"
