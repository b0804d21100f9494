"""A model calls an agent like a tool: a task of its own works on it, and its answer is the result."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_core import from_json

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction, agent_tool
from pentad.services.gateway.tasks.queries import NoGraphError, Queries
from pentad.shared.kinds import ControlKind
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ModelRefused
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import answer
from tests.integration.handlers.graph_flow import GraphFlow, NodeModel, ask, graph, llm

LIVE = ("pending", "active", "waiting", "stale")
TWO = [("agent_researcher", '{"task":"find x"}'), ("agent_researcher", '{"task":"find y"}')]


def instruction(name: str, *tools: str, **fields: object) -> Instruction:
    """An instruction that is offered these tools."""
    body = {"name": name, "system_prompt": f"You are {name}.", "tools": list(tools), "description": f"Is {name}."}
    return Instruction.model_validate(body | fields)


RESEARCHER = instruction("researcher", "echo")
CHIEF = instruction("chief", agent_tool("researcher"))


def calling(*calls: tuple[str, str]) -> Callable[[ChatRequest], ModelAnswer]:
    """What a node says that makes these calls, and then answers with their results."""

    def said(request: ChatRequest) -> ModelAnswer:
        last = from_json(request.messages[-1])
        return answer("", *calls) if last["role"] == "user" else answer(f"so {last['content']}")

    return said


async def flow_of(
    store: Store, folder: Path, model: NodeModel, *instructions: Instruction, graphs: tuple[GraphSpec, ...] = ()
) -> GraphFlow:
    """A flow with these instructions and graphs."""
    flow = GraphFlow(store, folder, model, instructions=instructions, graphs=graphs)
    await flow.prepare()
    return flow


async def test_an_agent_works_on_a_task_of_its_own_and_its_answer_is_the_result(store: Store, tmp_path: Path) -> None:
    model = NodeModel(chief=calling(*TWO), researcher=lambda r: f"found {from_json(r.messages[-1])['content'][-1]}")
    flow = await flow_of(store, tmp_path, model, CHIEF, RESEARCHER)
    await flow.run("chief", "find both")
    root, children = await flow.root(), await flow.children()
    assert (root.status, root.detail) == ("completed", "")
    assert sorted((child.goal, child.instruction, child.parent) for child in children) == [
        ("find x", "researcher", root.task_id),
        ("find y", "researcher", root.task_id),
    ]
    results = [m["content"] for m in model.requests[-1] if m["role"] == "tool"]
    assert results == ["found x", "found y"]
    assert [request[1:] for request, who in zip(model.requests, model.asked, strict=True) if who == "researcher"] == [
        [{"role": "user", "content": goal}] for goal in ("find x", "find y")
    ], "it sees its own task alone"
    told = [event.get("result") for event in await flow.events("tool_result")]
    assert sorted(filter(None, told)) == ["found x", "found y"]
    assert (root.input_tokens, root.output_tokens) == (4 * 5, 4 * 2)


async def test_an_agent_may_be_a_graph_and_a_node_of_a_graph_may_call_agents(store: Store, tmp_path: Path) -> None:
    inner = graph("inner", [llm("deep"), llm("deeper")], ("deep", "deeper"))
    outer = graph("outer", [llm("caller", tools=[agent_tool("inner")]), llm("last")], ("caller", "last"))
    model = NodeModel(caller=calling(("agent_inner", '{"task":"dig"}')), deeper="gold")
    flow = await flow_of(store, tmp_path, model, graphs=(inner, outer))
    await flow.run("outer")
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    assert model.asked == ["caller", "deep", "deeper", "caller", "last"]
    (child,) = await flow.children()
    assert (child.instruction, await flow.path(child.task_id)) == ("inner", ["deep", "deeper"])


async def test_the_agents_that_a_task_has_called_are_its_path(store: Store, tmp_path: Path) -> None:
    both = [TWO[0], ("agent_researcher", '{"task":"break"}')]

    def works(request: ChatRequest) -> ModelAnswer:
        if from_json(request.messages[-1])["content"] == "break":
            raise ModelRefused("it is broken")
        return answer("found x")

    flow = await flow_of(store, tmp_path, NodeModel(chief=calling(*both), researcher=works), CHIEF, RESEARCHER)
    await flow.run("chief", "find both")
    queries, root = Queries(store, flow.records, 1), await flow.root()
    found = await queries.path("default", root.task_id)
    assert found is not None
    path, drawn = found
    assert (path.graph, path.status, path.success, drawn) == ("chief", "completed", True, None)
    (visit,) = path.path
    assert [(task.name, task.outcome) for task in visit.tasks] == [
        ("agent_researcher", "ok"),
        ("agent_researcher", "failed"),
    ]
    assert "it is broken" in (visit.tasks[1].error or "")
    assert {task.task_id for task in visit.tasks} == {child.task_id for child in await flow.children()}
    with pytest.raises(NoGraphError):
        await queries.path("default", visit.tasks[0].task_id)


async def test_agents_that_a_node_of_a_graph_calls_stand_below_the_node(store: Store, tmp_path: Path) -> None:
    outer = graph("outer", [llm("caller", tools=[agent_tool("researcher")]), llm("last")], ("caller", "last"))
    model = NodeModel(caller=calling(TWO[0]), researcher="x")
    flow = await flow_of(store, tmp_path, model, RESEARCHER, graphs=(outer,))
    await flow.run("outer")
    found = await Queries(store, flow.records, 1).path("default", (await flow.root()).task_id)
    assert found is not None
    assert [[task.outcome for task in visit.tasks] for visit in found[0].path] == [["ok"], []]


async def test_an_agent_that_fails_is_an_error_of_the_call(store: Store, tmp_path: Path) -> None:
    def refuses(_: ChatRequest) -> str:
        raise ModelRefused("no")

    model = NodeModel(chief=calling(TWO[0]), researcher=refuses)
    flow = await flow_of(store, tmp_path, model, CHIEF, RESEARCHER)
    await flow.run("chief")
    assert (await flow.root()).status == "completed"
    assert model.requests[-1][-1]["content"] == "error: the task was failed: model_error: no"


async def test_one_that_is_not_there_is_not_offered_and_its_call_says_so(store: Store, tmp_path: Path) -> None:
    model = NodeModel(chief=calling(TWO[0]))
    flow = await flow_of(store, tmp_path, model, CHIEF)
    await flow.run("chief")
    assert "there is no tool 'agent_researcher'" in model.requests[-1][-1]["content"]


async def test_a_call_without_words_is_an_error_and_starts_nothing(store: Store, tmp_path: Path) -> None:
    model = NodeModel(chief=calling(("agent_researcher", '{"task":" "}')))
    flow = await flow_of(store, tmp_path, model, CHIEF, RESEARCHER)
    await flow.run("chief")
    assert "the argument 'task' must be a text that says something" in model.requests[-1][-1]["content"]
    assert await flow.children() == []


async def test_agents_that_call_each_other_come_to_an_end(store: Store, tmp_path: Path) -> None:
    endless = instruction("endless", agent_tool("endless"))
    model = NodeModel(endless=calling(("agent_endless", '{"task":"go on"}')))
    flow = await flow_of(store, tmp_path, model, endless)
    await flow.run("endless")
    assert (await flow.root()).status == "completed"
    assert len(await flow.children()) == 8
    assert "agents call each other 8 levels deep" in (await flow.answer())


async def test_an_agent_asks_the_person_and_is_cancelled_with_who_has_called_it(store: Store, tmp_path: Path) -> None:
    asker = instruction("researcher", "ask_user")
    asks = calling(("ask_user", '{"question":"Which?"}'))

    def said(request: ChatRequest) -> ModelAnswer:
        users = [m for m in map(from_json, request.messages) if m["role"] == "user"]
        return asks(request) if len(users) == 1 else answer(f"it is {users[-1]['content']}")

    model = NodeModel(chief=calling(TWO[0]), researcher=said)
    flow = await flow_of(store, tmp_path, model, CHIEF, asker)
    await flow.run("chief")
    (child,) = await flow.children()
    assert (child.status, (await flow.root()).status) == ("waiting", "active")
    await flow.say("this")
    await flow.drive()
    assert await flow.answer() == "so it is this"
    await flow.run("chief", "again")
    what: ControlKind = "cancel"
    await flow.actors.post(await flow.task_named((await flow.root()).task_id), what, b"{}", LIVE, control=what)
    await flow.drive()
    assert {task.status for task in await flow.tasks()} == {"completed", "cancelled"}
    assert [task.status for task in await flow.children()].count("cancelled") == 1


async def test_a_branch_calls_an_agent_that_runs_a_graph_that_asks(store: Store, tmp_path: Path) -> None:
    """Several levels down, a question is answered by who is asked last."""
    asking = graph("asking", [ask("who", "Who?", writes="who"), llm("done")], ("who", "done"))
    fan = {"key": "fan", "kind": "parallel", "branches": ["a", "b"], "join": "all", "then": "last"}
    outer = graph("outer", [fan, llm("a", tools=[agent_tool("asking")]), llm("b"), llm("last")])
    model = NodeModel(a=calling(("agent_asking", '{"task":"ask"}')), done="Mimi it is")
    flow = await flow_of(store, tmp_path, model, graphs=(asking, outer))
    await flow.run("outer")
    assert max(task.depth for task in await flow.tasks()) == 2
    await flow.say("Mimi")
    await flow.drive()
    assert (await flow.root()).status == "completed"
    assert from_json(model.requests[-1][-1]["content"])["a"] == "so Mimi it is"
