"""Many tools: their schemas cost a bounded part of a prompt, and a model finds those that it needs."""

from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import Effect
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.task_runner.toolboxes import MAX_SHOWN
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer

MOST = 1_500
BUSY = Instruction(name="busy", system_prompt="You have many tools.", tool_rounds=None, tool_schema_tokens=MOST)


def many() -> dict[str, ToolDefinition]:
    """Sixty tools, one of which tells the weather."""

    async def weather_of(city: str) -> str:
        """Tells the weather in a city.

        Args:
            city: Its name.
        """
        return f"rain in {city}"

    def numbered(n: int) -> ToolDefinition:
        async def tool(first: str, second: int = 0, third: bool = False) -> str:
            """Moves one of the many boxes in the warehouse from its shelf to another one, and says where it is."""
            return f"{first} {second} {third}"

        tool.__name__ = f"box_{n}"
        return define(tool, effect=Effect.PURE)

    made = [*(numbered(n) for n in range(60)), define(weather_of, effect=Effect.PURE)]
    return {each.spec.name: each for each in made}


def names(request: ChatRequest) -> list[str]:
    return [tool["function"]["name"] for tool in from_json(request.tools or b"[]")]


def results(request: ChatRequest) -> list[str]:
    return [str(m["content"]) for m in map(from_json, request.messages) if m["role"] == "tool"]


async def run(store: Store, folder: Path, *answers: ModelAnswer, **more: Any) -> tuple[Flow, list[ChatRequest]]:
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answers[len(asked) - 1] if len(asked) <= len(answers) else answer("done")

    window, tools = more.pop("window", None), more.pop("tools_there", None) or many()
    instruction = BUSY.model_copy(update=more)
    flow = await Flow(store, folder, script, instructions=[instruction], tools=tools, pentad_step_limit=30).prepare()
    flow.model.window = window
    await flow.say("go", instruction="busy")
    await flow.drive()
    return flow, asked


def search(query: str) -> ModelAnswer:
    return answer("", ("tool_search", to_json({"query": query}).decode()))


async def test_a_model_finds_the_tool_that_it_needs_and_calls_it(store: Store, tmp_path: Path) -> None:
    """Promise: beyond `tool_schema_tokens` tools are offered by name and found by `tool_search`."""
    weather = answer("", ("weather_of", '{"city":"Oslo"}'))
    flow, asked = await run(store, tmp_path, search("the weather in a city"), weather)
    assert "weather_of" not in names(asked[0])
    assert {"tool_search", "ask_user", "complete_task"} <= set(names(asked[0]))
    assert all(name in (asked[0].tools or b"").decode() for name in ("weather_of", "box_0", "box_59"))
    assert results(asked[1])[0].splitlines()[1] == "- weather_of: Tells the weather in a city."
    assert "weather_of" in names(asked[1])
    assert results(asked[2])[-1] == "rain in Oslo"
    assert max(len(request.tools or b"") for request in asked) < 4 * MOST
    queries, task = Queries(store, flow.records, 1), (await flow.task()).task
    for step, request in enumerate(asked, 1):
        prompt = await queries.prompt("default", task, step)
        assert prompt is not None
        assert prompt.proved
        assert to_json(prompt.tools) == request.tools


async def test_a_tool_that_is_not_shown_may_be_called_by_its_name(store: Store, tmp_path: Path) -> None:
    _, asked = await run(store, tmp_path, answer("", ("weather_of", '{"city":"Rome"}')))
    assert results(asked[1]) == ["rain in Rome"]


async def test_what_is_found_stays_within_the_limit_and_the_newest_is_shown(store: Store, tmp_path: Path) -> None:
    searches = [search(f"box_{n}") for n in range(12)]
    _, asked = await run(store, tmp_path, *searches, search("weather"))
    assert "weather_of" in names(asked[-1])
    assert "box_11" in names(asked[-1])
    assert "box_0" not in names(asked[-1])
    assert max(len(request.tools or b"") for request in asked) < 4 * MOST


async def test_a_search_for_nothing_says_so(store: Store, tmp_path: Path) -> None:
    _, asked = await run(store, tmp_path, search("xylophone"), search(" "), answer("", ("tool_search", "{}")))
    assert results(asked[1])[0].startswith("No tool was found")
    assert all("'query' must be a text" in result for result in results(asked[3])[1:])


async def test_few_tools_are_all_shown(store: Store, tmp_path: Path) -> None:
    _, asked = await run(store, tmp_path, tools=["weather_of", "box_1"])
    assert names(asked[0]) == ["box_1", "weather_of"]


async def test_above_forty_tools_they_are_found_by_name_without_any_limit_of_tokens(
    store: Store, tmp_path: Path
) -> None:
    _, asked = await run(store, tmp_path, search("weather"), tool_schema_tokens=None)
    assert "tool_search" in names(asked[0])
    assert "weather_of" not in names(asked[0])
    assert "weather_of" in names(asked[1])


async def test_up_to_forty_tools_are_all_shown(store: Store, tmp_path: Path) -> None:
    forty = [f"box_{n}" for n in range(MAX_SHOWN)]
    _, asked = await run(store, tmp_path, tool_schema_tokens=None, tools=forty)
    assert set(names(asked[0])) == set(forty)


async def test_tokens_that_the_instruction_allows_decide_alone(store: Store, tmp_path: Path) -> None:
    _, asked = await run(store, tmp_path, tool_schema_tokens=1_000_000)
    assert len(names(asked[0])) > 60


async def test_tools_are_listed_by_their_server_and_searched_in_one(store: Store, tmp_path: Path) -> None:
    def of_server(server: str, name: str) -> ToolDefinition:
        async def tool() -> str:
            """Sends a note."""
            return "sent"

        tool.__name__ = f"{server}__{name}"
        return define(tool, effect=Effect.PURE)

    servers = [of_server(server, name) for server in ("mail", "chat") for name in ("send", "list")]
    tools = many() | {each.spec.name: each for each in servers}
    searches = [
        answer("", ("tool_search", to_json({"query": query, "server": server}).decode()))
        for query, server in (("send a note", "chat"), ("xylophone", "mail"), ("send", "post"))
    ]
    _, asked = await run(store, tmp_path, *searches, tools_there=tools)
    [offered] = [
        tool["function"] for tool in from_json(asked[0].tools or b"") if tool["function"]["name"] == "tool_search"
    ]
    assert "; of the server chat: chat__send, chat__list; of the server mail: mail__" in offered["description"]
    assert offered["parameters"]["properties"]["server"]["enum"] == ["chat", "mail"]
    told = results(asked[3])
    assert [line.split(":")[0] for line in told[0].splitlines()[1:]] == ["- chat__send", "- chat__list"]
    assert [line.split(":")[0] for line in told[1].splitlines()[1:]] == ["- mail__list", "- mail__send"]
    assert "there is no server 'post'; the servers are: chat, mail" in told[2]


async def test_a_known_window_limits_them_too(store: Store, tmp_path: Path) -> None:
    _, asked = await run(store, tmp_path, tool_schema_tokens=None, window=8_000)
    assert "tool_search" in names(asked[0])
    assert len(asked[0].tools or b"") < 8_000
