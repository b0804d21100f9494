"""Graphs as a program registers and checks them, and as a person looks at them on the command line."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.cli.main import main
from pentad.client.agent import Agent
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.app import GatewayService
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.presence.published import INSTRUCTIONS, TOOLS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.unit.agent_graphs.graphs import EVERYTHING, everything, runs


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_data_dir=tmp_path) as started:
        yield started


@pytest.fixture
async def agent(gateway: GatewayService) -> AsyncIterator[Agent]:
    async with pentad.connect(gateway.address) as connected:
        yield connected


def built() -> pentad.AgentGraph:
    return pentad.AgentGraph(everything())


async def makes_whole(store: Store, agent: Agent) -> None:
    """All that the graph names is there."""
    await INSTRUCTIONS.publish(store, [Instruction(name="planner", system_prompt="Plan.")])
    about: dict[str, Any] = {"description": "", "parameters": {}, "effect": "pure", "timeout": 1, "queue": "default"}
    names = ("calculator", "look_up", "is_complete")
    await TOOLS.publish(store, [ToolSpec.model_validate(about | {"name": name}) for name in names])
    await agent.management.register_model("fast")
    await agent.management.register_graph(runs("visit_city"))


async def test_a_program_registers_looks_at_and_deletes_a_graph_in_any_form(store: Store, agent: Agent) -> None:
    with pytest.raises(pentad.Refused, match="there is no instruction 'planner'"):
        await agent.management.register_graph(built())
    await makes_whole(store, agent)
    for form in (EVERYTHING, everything(), built()):
        shown = await agent.management.register_graph(form)
        assert (shown["source"], shown["warning"]) == ("registered", None)
    assert GraphSpec.model_validate(await agent.inspection.graph("report")) == everything()
    assert [each["name"] for each in await agent.inspection.graphs()] == ["plan_solve", "report", "visit_city"]
    await agent.management.delete_graph("report")
    with pytest.raises(pentad.NotFound):
        await agent.inspection.graph("report")
    with pytest.raises(pentad.WrongGraph, match="ends"):
        await agent.management.register_graph(EVERYTHING | {"ends": ["x"]})


async def test_validate_tells_what_the_system_does_not_know(
    store: Store, gateway: GatewayService, agent: Agent
) -> None:
    unknown = [
        "nodes[0] (plan).instruction: there is no instruction 'planner'",
        "nodes[3] (think).model: there is no chat model 'fast': register it first",
        "nodes[5] (visit).graph: there is no graph 'visit_city'",
        "nodes[2] (look).tool: no worker has a tool 'look_up' now",
        "nodes[3] (think).tools: no worker has a tool 'calculator' now",
        "edges[3].check: no worker has a tool 'is_complete' now",
    ]
    assert await built().validate(agent) == unknown

    def blocking() -> list[str]:
        with pentad.connect_sync(gateway.address) as waiting:
            return built().validate(agent=waiting)

    assert await asyncio.to_thread(blocking) == unknown
    await makes_whole(store, agent)
    assert await built().validate(agent=agent) == []


async def command(gateway: GatewayService, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command, and return its exit code and what it says."""
    code = await asyncio.to_thread(main, [words[0], "--url", gateway.address, *words[1:]])
    said = capsys.readouterr()
    return code, said.out, said.err


async def test_the_command_line_lists_and_shows_graphs(
    store: Store, gateway: GatewayService, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = await command(gateway, capsys, "graphs")
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["GRAPH", "plan_solve"])
    await makes_whole(store, agent)
    await agent.management.register_graph(EVERYTHING | {"description": "\x1b[31mWrites a report."})
    code, out, _ = await command(gateway, capsys, "graphs")
    assert code == 0
    assert [line.split()[:5] for line in (out.splitlines()[0], out.splitlines()[2])] == [
        ["GRAPH", "FROM", "NODES", "BEGINS", "ENDS"],
        ["report", "registered", "8", "plan", "approve"],
    ]
    assert "\x1b[31m" not in out
    _, out, _ = await command(gateway, capsys, "graphs", "--json")
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["plan_solve", "report", "visit_city"]
    _, out, _ = await command(gateway, capsys, "graphs", "show", "report", "--mermaid")
    assert out == mermaid(everything())
    _, out, _ = await command(gateway, capsys, "graphs", "show", "report", "--json")
    assert GraphSpec.model_validate_json(out).name == "report"
    code, out, _ = await command(gateway, capsys, "graphs", "show", "report")
    assert code == 0
    assert "\x1b[31m" not in out
    for told in (
        "report (registered, version ",
        "begins with plan, ends with approve\nat most 50 nodes and 60 s\n",
        "\nplan (llm)\n  instruction: planner\n  -> both\n\n",
        "\nthink (llm): Thinks.\n  writes: notes\n",
        '  -> plan where {"state.score": {"<": 0.5}, "state.notes": {"exists": true}}\n  -> plan check is_complete\n',
        "\nstate: {",
    ):
        assert told in out


async def test_the_command_line_shows_an_instruction_and_tells_where_a_graph_is(
    store: Store, gateway: GatewayService, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    await agent.management.register_instruction("poet", system_prompt="Rhyme.\n\x1b[31mAlways.", tools=[])
    await agent.management.register_graph(runs("survey"))
    code, out, _ = await command(gateway, capsys, "instructions", "show", "poet")
    assert code == 0
    assert out.startswith("name: poet\n")
    assert "tools: []\n" in out
    assert out.endswith("Always.\n")
    assert "\n\nRhyme.\n" in out
    assert "\x1b" not in out
    code, _, err = await command(gateway, capsys, "instructions", "show", "survey")
    assert (code, err) == (1, "pentad: survey is a graph: `pentad graphs show survey` shows it\n")
    code, _, err = await command(gateway, capsys, "graphs", "show", "executor")
    assert code == 1
    assert "there is an instruction of this name" in err
    code, _, err = await command(gateway, capsys, "instructions", "show", "nobody")
    assert code == 1
    assert "`pentad instructions` lists them" in err
    _, out, _ = await command(gateway, capsys, "instructions", "show", "poet", "--json")
    assert json.loads(out)["system_prompt"] == "Rhyme.\n\x1b[31mAlways."
