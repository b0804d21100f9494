"""The whole face of graphs once, on a real `pentad up`: built, run, asked, answered, looked at, run by its name."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, ROOT, Up

pytestmark = pytest.mark.acceptance

GRAPH = (
    pentad.AgentBuilder("party")
    .set_description("Plans a party.")
    .add_llm_node("plan", "Plans.", None, [], "You are plan. {{state.guest}}")
    .add_parallel("fan", ["music", "cake"], then="sum")
    .add_llm_node("music", "Chooses.", None, [], "You are music.", writes="music")
    .add_ask_node("cake", "Which cake does {{state.guest}} like?", writes="cake")
    .add_tool_node("sum", "calculator", {"expression": "6 * 7"})
    .add_llm_node("done", "Tells it.", None, [], "You are done. {{state.cake}}")
    .add_edge("plan", "fan")
    .add_edge("sum", "done")
    .add_conditional_edge("done", "plan", "The plan is bad.")
    .set_entry_point("plan")
    .set_end_points(["done"])
    .build()
)


def script(request: dict[str, Any]) -> Reply:
    system = request["messages"][0]["content"]
    if system.startswith("You are calls"):
        last = request["messages"][-1]
        return say(str(last["content"])) if last["role"] == "tool" else call(("look_up", {"name": "a"}))
    if system.startswith("You watch"):
        return say('{"holds": [false]}')
    return say(f"{system.partition('.')[0].removeprefix('You are ')} is ready", chunks=3)


def command(url: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as nobody watches."""
    return subprocess.run(
        [str(PENTAD), *words, "--url", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def pentad_says(url: str, *words: str) -> str:
    """Run a command, and return what it prints."""
    done = command(url, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_graph_is_built_run_asked_answered_and_looked_at(tmp_path: Path) -> None:
    async with ScriptedModel(script) as model, asyncio.timeout(90):
        settings = {"LLM_BASE_URL": model.base_url, "PENTAD_ROUTE": "explicit"}
        with Up(tmp_path, settings, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            url = await up.ready()
            async with pentad.connect(url) as stranger:
                with pytest.raises(pentad.Refused, match="graph 'party' is not registered in this version"):
                    await GRAPH.execute(agent=stranger)
            async with pentad.connect(url, admin_key=up.admin_key) as agent:
                task = await run_to_its_result(agent, url)
                await asyncio.to_thread(look, url, task)
                await run_by_name(agent)
                await run_with_functions(agent)
                await refuse(agent, url)
                await end_early(agent)
                await answer_one_of_two(agent)
            await asyncio.to_thread(run_without_a_loop, url)


async def run_to_its_result(agent: pentad.Agent, url: str) -> str:
    """Run the graph; its question is answered on the command line."""
    said: list[str] = []
    tools: list[str] = []
    results: list[pentad.GraphResult] = []
    with pytest.raises(ValueError, match="graph 'party' begins with 'plan', not with 'done'"):
        await GRAPH.execute("done", agent=agent)
    run = await GRAPH.execute(
        "plan",
        {"guest": "Mimi", "context": [{"role": "user", "content": "a party, please"}]},
        agent=agent,
        on_text=said.append,
        on_tool_start=lambda event: tools.append(event.tool),
        on_complete=results.append,
    )
    with pytest.raises(pentad.RunWaits, match="asks: Which cake does Mimi like") as waits:
        await run.result()
    assert waits.value.task_id != run.execution_id
    assert await run.status() == "RUNNING"
    with pytest.raises(pentad.RunWaits):
        await run.result()
    told = await asyncio.to_thread(pentad_says, url, "send", "carrot cake", "--task", waits.value.task_id)
    assert told.splitlines()[-1] == "done is ready"
    result = await run.result()
    assert result == await run.result()
    assert results == [result]
    assert (result.success, result.final_message, result.iterations) == (True, "done is ready", 4)
    assert dict(result.final_state) == {"guest": "Mimi", "music": "music is ready", "cake": "carrot cake", "sum": 42}
    assert [visit.node for visit in result.execution_path] == ["plan", "fan", "sum", "done"]
    assert [task.name for task in result.execution_path[1].tasks] == ["music", "cake"]
    assert (await run.status(), await run.iteration_count()) == ("COMPLETED", 4)
    assert {"music is ready", "Which cake does Mimi like?"} <= set(said)
    assert "".join(said).startswith("plan is ready")
    assert "".join(said).endswith("done is ready")
    assert tools == ["ask_user", "calculator"]
    assert [call.tool for call in await run.get_tool_calls()] == ["ask_user", "calculator"]
    events = [event async for event in run]
    nodes = [event.node for event in events if isinstance(event, pentad.NodeStart)]
    assert sorted(filter(None, nodes)) == ["cake", "done", "fan", "music", "plan", "sum"]
    assert isinstance(events[-1], pentad.TaskEnd)
    task = await agent.inspection.task(run.execution_id)
    assert (task.goal, task.session_id, task.created_at) == ("a party, please", run.session_id, run.start_time)
    return run.execution_id


def look(url: str, task: str) -> None:
    """Look at the run on the command line."""
    shown = pentad_says(url, "task", task)
    tree = [line.split()[:2] for line in shown.splitlines() if line.lstrip()[:1] in ("✓", "…")]
    assert [node for _, node in tree] == ["plan", "fan", "music", "music", "cake", "cake", "sum", "done"]
    assert "no: The plan is bad." in shown
    path = json.loads(pentad_says(url, "task", task, "--json"))["path"]
    assert [visit["node"] for visit in path["path"]] == ["plan", "fan", "sum", "done"]
    drawn = pentad_says(url, "task", task, "--path", "--mermaid")
    assert drawn.startswith("flowchart TD\n")
    assert "class n0,n1,n4,n5 ok" in drawn
    assert [line.split()[0] for line in pentad_says(url, "task", task, "--path").splitlines()[1:2]] == ["✓"]
    marked = [line for line in pentad_says(url, "tasks").splitlines() if "└" in line]
    assert len(marked) == 2
    asked = command(url, "send", "go", "--instruction", "party", "--state", '{"guest":"Bo"}')
    assert asked.stdout.splitlines() == ["plan is ready", "Which cake does Bo like?"]
    assert "pentad send --task task-" in asked.stderr
    assert asked.returncode == 0


async def run_by_name(agent: pentad.Agent) -> None:
    """Run the graph as an instruction is run, with callbacks and without; its question ends the run as waiting."""
    said: list[str] = []
    with pytest.raises(pentad.RunFailed) as waits:
        await agent.run("party", "go", state={"guest": "Ann"}, on_text=said.append)
    assert (waits.value.run.status, waits.value.run.content) == ("waiting", "Which cake does Ann like?")
    assert "Which cake does Ann like?" in said
    small = pentad.AgentBuilder("small").add_llm_node("only", tools=[], system_prompt="You are {{state.who}}.")
    await agent.management.register_graph(small.set_entry_point("only").set_end_points("only").build())
    assert await agent.run("small", "go", state={"who": "a cat"}) == '"a cat" is ready'
    ran = await agent.execute("small", "go", state={"who": "a dog"})
    assert (ran.status, ran.content, ran.steps, ran.error) == ("completed", '"a dog" is ready', 1, None)
    assert await agent.ask("go", instruction="party", state={"guest": "Bea"}) == "Which cake does Bea like?"
    events = [event async for event in agent.send("go", instruction="small", state={"who": "me"})]
    assert [event.type for event in events if event.type.startswith("node")] == ["node_start", "node_end"]
    with pytest.raises(pentad.NotFound):
        await agent.run("nothing", "go", on_text=said.append)
    plain = await agent.execute("executor", "hello")
    with pytest.raises(pentad.Conflict, match="not a graph"):
        await agent.inspection.path(plain.task_id or "")


async def run_with_functions(agent: pentad.Agent) -> None:
    """Functions of the program are called while the result is waited for, also when that is left and begun again."""
    graph = pentad.AgentBuilder("calls").add_llm_node("only", system_prompt="You are calls.")
    seen: list[str] = []
    hangs = asyncio.Event()

    async def look_up(name: str) -> str:
        """Look something up."""
        seen.append(name)
        if len(seen) == 1:
            hangs.set()
            await asyncio.Event().wait()
        return f"found {name}"

    run = await graph.set_entry_point("only").set_end_points("only").build().execute(agent=agent, tools=[look_up])
    left = asyncio.create_task(run.result())
    await hangs.wait()
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    result = await run.result()
    assert (result.success, result.final_message, seen) == (True, "found a", ["a", "a"])
    await run.add_message("again")
    assert (await run.result()).final_message == "found a"
    assert len(seen) == 3, "the next message brings them along, too"
    raw = await agent.execute_graph(graph.build(), content="go", tools=[{"name": "look_up"}])
    with pytest.raises(pentad.RunWaits, match="has stopped: client_tools") as waits:
        await raw.result()
    [call] = await raw.get_tool_calls()
    await agent.management.send_result(waits.value.task_id, call.tool_call_id, result="by hand")
    assert (await raw.result()).final_message == "by hand"


async def refuse(agent: pentad.Agent, url: str) -> None:
    """A wrong state is told, and nothing runs; so is one for an instruction."""
    async with httpx2.AsyncClient(base_url=url) as http:
        message = {"content": "go", "instruction": "small"}
        for path, body in (("/v1/messages", message), ("/v1/instructions/small/run", {"input": "go"})):
            for state in ([1], "x", {"a": "x" * 66_000}):
                refused = await http.post(path, json={**body, "state": state})
                assert refused.status_code == 422, refused.text
                assert "state" in refused.json()["detail"]
                assert len(refused.text) < 1_000
    with pytest.raises(pentad.RunFailed, match="state is the initial state of a graph"):
        await agent.run("executor", "go", state={"a": 1})


async def end_early(agent: pentad.Agent) -> None:
    """A run is paused, goes on, and is given up."""
    run = await GRAPH.execute(agent=agent, content="go", initial_state={"guest": "Cy"})
    with pytest.raises(pentad.RunWaits):
        await run.result()
    await run.pause()
    await run.resume()
    await run.abort()
    result = await run.result()
    assert (result.success, await run.status(), result.final_message) == (False, "CANCELLED", None)
    assert result.error
    with pytest.raises(pentad.Conflict):
        await run.pause()


async def answer_one_of_two(agent: pentad.Agent) -> None:
    """The turn of an answer ends as waiting while another branch still asks, and with the run after the last answer."""
    two = pentad.AgentBuilder("two").add_parallel("fan", ["a", "b"], then="sum")
    two.add_ask_node("a", "A?").add_ask_node("b", "B?").add_tool_node("sum", "calculator", {"expression": "1"})
    run = await two.set_entry_point("fan").set_end_points("sum").build().execute(agent=agent, content="go")
    for end in ("waiting", "completed"):
        with pytest.raises(pentad.RunWaits) as waits:
            await run.result()
        turn = agent.turn("yes", session_id=run.session_id, task_id=waits.value.task_id)
        assert [received async for received in turn]
        assert turn.end is not None
        assert turn.end.outcome == end
    assert (await run.result()).success


def run_without_a_loop(url: str) -> None:
    """The same, in a program without an event loop."""
    with pentad.connect_sync(url) as agent:
        run = GRAPH.execute(agent=agent, content="go", initial_state={"guest": "Di"})
        with pytest.raises(pentad.RunWaits) as waits:
            run.result()
        run.add_message("none", task_id=waits.value.task_id)
        assert run.result().success
        assert run.status() == "COMPLETED"
        assert [event.type for event in run][-1] == "task_end"
