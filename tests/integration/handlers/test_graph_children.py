"""Branches, items and graphs inside graphs are tasks of their own, which end with the task that starts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.records import Exclusion, NodeEntry, TranscriptMeta
from pentad.shared.kinds import ControlKind
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ModelRefused
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import answer
from tests.integration.handlers.graph_flow import GraphFlow, NodeModel, ask, graph, llm, tool

LIVE = ("pending", "active", "waiting", "stale")
FAN = {"key": "fan", "kind": "parallel", "branches": ["a", "b", "c"], "join": "all", "then": "last"}
THREE = [FAN, llm("a", writes="a"), llm("b", writes="b"), llm("c", writes="c"), llm("last")]


def refuses(times: int, model: Callable[[], NodeModel], key: str, text: str = "so") -> Callable[[ChatRequest], str]:
    """What a node says whose model refuses so many times first."""

    def said(_: ChatRequest) -> str:
        if model().asked.count(key) <= times:
            raise ModelRefused("no")
        return text

    return said


async def test_branches_are_tasks_of_their_own_and_are_joined_in_their_order(store: Store, tmp_path: Path) -> None:
    model = NodeModel(a="one", b="two", c="three")
    flow = await GraphFlow.of(store, tmp_path, model, graph("three", THREE))
    await flow.run("three", "go")
    root, children = await flow.root(), await flow.children()
    assert (root.status, [child.status for child in children]) == ("completed", ["completed"] * 3)
    assert {(child.parent, child.branch, child.depth) for child in children} == {(root.task_id, k, 1) for k in "abc"}
    assert await flow.state() == {"a": "one", "b": "two", "c": "three"}
    calls, results = model.requests[-1][-2:]
    assert calls["tool_calls"][0]["function"]["name"] == "fan"
    assert from_json(results["content"]) == {"a": "one", "b": "two", "c": "three"}
    told = [e for e in await flow.events("task_start", "message", "task_end") if e["task_id"] != root.task_id]
    assert {(e["parent_task_id"], e["node"]) for e in told} == {(root.task_id, k) for k in "abc"}
    assert len(told) == 9
    assert (root.input_tokens, root.output_tokens) == (4 * 5, 4 * 2), "a task has used what its branches have"


@pytest.mark.parametrize(
    ("reducer", "a", "b", "joined"),
    [
        ("append", "1", "[2, 3]", [2, 3, 1]),
        ("merge", '{"x": 1, "y": 1}', '{"y": 2, "z": 2}', {"y": 1, "z": 2, "x": 1}),
        ("sum", "1", "2.5", 3.5),
        ("replace", '"one"', '"two"', "one"),
    ],
)
async def test_what_branches_write_is_joined_by_the_reducer_of_its_key_in_their_order(
    store: Store, tmp_path: Path, reducer: str, a: str, b: str, joined: Any
) -> None:
    fan = {"key": "fan", "kind": "parallel", "branches": ["b", "a"], "join": "all", "then": "last"}
    anything = {"type": ["number", "string", "array", "object"]}
    writers = [llm(key, output="json", output_schema=anything, writes="notes") for key in "ab"]
    last = llm("last", system_prompt="You are last. {{state.notes}}")
    schema = {"type": "object", "properties": {"notes": {"reducer": reducer}}}
    model = NodeModel(a=a, b=b)
    flow = await GraphFlow.of(store, tmp_path, model, graph("both", [fan, *writers, last], state_schema=schema))
    await flow.run("both")
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    shown = joined if isinstance(joined, str) else to_json(joined).decode()
    assert to_json(shown).decode() in model.requests[-1][0]["content"]


async def test_a_join_of_any_goes_on_with_the_first_and_cancels_the_others(store: Store, tmp_path: Path) -> None:
    fan = FAN | {"join": "any", "writes": "fan"}
    asks = [fan, ask("a"), llm("b"), ask("c"), llm("last")]
    flow = await GraphFlow.of(store, tmp_path, model := NodeModel(b="first"), graph("any", asks))
    await flow.run("any")
    assert (await flow.root()).status == "completed"
    assert {child.branch: child.status for child in await flow.children()} == {
        "a": "cancelled",
        "b": "completed",
        "c": "cancelled",
    }
    assert from_json(model.requests[-1][-1]["content"]) == {
        "a": {"cancelled": "others were enough"},
        "b": "first",
        "c": {"cancelled": "others were enough"},
    }
    assert (await flow.state())["fan"] == {"b": "first"}


async def test_a_join_that_cannot_be_reached_any_more_fails_and_cancels_the_rest(store: Store, tmp_path: Path) -> None:
    fan = FAN | {"join": 2}
    nodes = [fan, llm("a"), llm("b"), ask("c"), llm("last")]
    model = NodeModel(a=refuses(9, lambda: model, "a"), b=refuses(9, lambda: model, "b"))
    flow = await GraphFlow.of(store, tmp_path, model, graph("two", nodes))
    await flow.run("two")
    root = await flow.root()
    assert (root.status, root.reason) == ("failed", "graph_error")
    assert "branch 'a' has failed" in root.detail
    assert {child.branch: child.status for child in await flow.children()}["c"] == "cancelled"


async def test_an_item_that_fails_twice_makes_three_attempts_and_its_neighbours_one(
    store: Store, tmp_path: Path
) -> None:
    failed = 0

    def works(request: ChatRequest) -> str:
        nonlocal failed
        item = from_json(request.messages[-1])["content"]
        if item == "y" and failed < 2:
            failed += 1
            raise ModelRefused("no")
        return f"did {item}"

    nodes = [
        {"key": "each", "kind": "map", "over": "state.items", "node": "work", "max_parallel": 2, "then": "last"},
        llm("work", retry={"attempts": 3}),
        llm("last"),
    ]
    flow = await GraphFlow.of(store, tmp_path, model := NodeModel(work=works), graph("each", nodes))
    await flow.run("each", state={"items": ["x", "y", "z", {"w": 1}]})
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    assert (await flow.state())["each"] == ["did x", "did y", "did z", 'did {"w":1}']
    assert model.asked.count("work") == 3 + 3
    assert len(await flow.children()) == 4


async def test_no_more_items_are_under_way_than_may_be(store: Store, tmp_path: Path) -> None:
    nodes = [
        {"key": "each", "kind": "map", "over": "state.items", "node": "who", "max_parallel": 2, "then": "last"},
        ask("who", "{{state.item}}?", writes="said"),
        llm("last"),
    ]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("each", nodes))
    await flow.run("each", state={"items": ["one", "two", "three"]})
    asked = [event["content"] for event in await flow.events("message")]
    assert sorted(asked) == ["one?", "two?"]
    by_goal = {child.goal: child.task_id for child in await flow.children()}
    await flow.say("2", task_id=by_goal["two"])
    await flow.drive()
    by_goal = {child.goal: child.task_id for child in await flow.children()}
    assert set(by_goal) == {"one", "two", "three"}
    await flow.say("3", task_id=by_goal["three"])
    await flow.say("1")  # the only one that asks is found without being named
    await flow.drive()
    assert (await flow.root()).status == "completed"
    assert (await flow.state())["each"] == ["1", "2", "3"], "by their place in the list, not by when they came"


async def test_an_empty_list_has_no_items_and_what_is_no_list_fails(store: Store, tmp_path: Path) -> None:
    nodes = [
        {"key": "each", "kind": "map", "over": "state.items", "node": "work", "then": "last"},
        llm("work"),
        llm("last"),
    ]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("each", nodes))
    await flow.run("each", state={"items": []})
    assert ((await flow.root()).status, (await flow.state())["each"]) == ("completed", [])
    for state, problem in (({"items": 1}, "is no list"), ({}, "the state has no state.items")):
        await flow.run("each", state=state)
        assert problem in (await flow.root()).detail
    await flow.run("each", state={"items": [0] * 1_001})
    assert "1,001 items, and 1,000 at most" in (await flow.root()).detail


async def test_a_graph_inside_a_graph_writes_to_the_state_of_the_one_that_runs_it(store: Store, tmp_path: Path) -> None:
    inner = graph("inner", [llm("deep", writes="found"), llm("deeper")], ("deep", "deeper"))
    outer = graph(
        "outer", [{"key": "sub", "kind": "graph", "graph": "inner", "writes": "sub"}, llm("last")], ("sub", "last")
    )
    model = NodeModel(deep="gold", deeper="dug")
    flow = await GraphFlow.of(store, tmp_path, model, outer, inner)
    await flow.run("outer", state={"where": "there"})
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    assert await flow.state() == {"where": "there", "found": "gold", "sub": "dug"}
    (child,) = await flow.children()
    assert (child.instruction, await flow.path(child.task_id)) == ("inner", ["deep", "deeper"])


async def test_a_graph_that_is_gone_and_graphs_that_nest_too_deep_fail_clearly(store: Store, tmp_path: Path) -> None:
    endless = graph("endless", [{"key": "sub", "kind": "graph", "graph": "endless"}])
    gone = graph("gone", [{"key": "sub", "kind": "graph", "graph": "nobody"}])
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), endless, gone)
    await flow.run("gone")
    assert "there is no graph 'nobody'" in (await flow.root()).detail
    await flow.run("endless")
    assert "nested more than 8 levels deep" in (await flow.root()).detail
    assert len(await flow.children()) == 8


async def _asked(flow: GraphFlow, name: str, what: ControlKind) -> None:
    await flow.actors.post(await flow.task_named(name), what, b"{}", LIVE, control=what)
    await flow.drive()


async def test_cancel_reaches_the_whole_tree(store: Store, tmp_path: Path) -> None:
    fan = {"key": "fan", "kind": "parallel", "branches": ["x", "y"], "join": "all"}
    inner = graph("inner", [fan, ask("x"), ask("y")], ends=["fan"])
    outer = graph("outer", [{"key": "sub", "kind": "graph", "graph": "inner"}])
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), outer, inner)
    await flow.run("outer")
    assert [(task.status, task.reason) for task in await flow.children()][1:] == [("waiting", "question")] * 2
    await _asked(flow, (await flow.root()).task_id, "cancel")
    assert [task.status for task in await flow.tasks()] == ["cancelled"] * 4
    assert len(await flow.events("task_end")) == 4


async def test_pause_and_resume_reach_the_whole_tree(store: Store, tmp_path: Path) -> None:
    nodes = [FAN | {"branches": ["a", "b"]}, ask("a"), llm("b"), llm("last")]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("two", nodes))
    await flow.run("two")
    root = await flow.root()
    waiting = next(task for task in await flow.children() if task.branch == "a")
    await _asked(flow, root.task_id, "pause")
    assert (await flow.root()).reason == (await flow.header(waiting.task_id)).reason == "paused"
    await flow.say("Mimi", task_id=waiting.task_id)
    await flow.drive()
    assert (await flow.header(waiting.task_id)).reason == "paused"
    await _asked(flow, root.task_id, "resume")
    assert [task.status for task in await flow.tasks()] == ["completed"] * 3


async def test_a_branch_that_is_cancelled_alone_fails_its_node(store: Store, tmp_path: Path) -> None:
    nodes = [FAN | {"branches": ["a", "b"], "on_error": "sorry"}, ask("a"), llm("b"), llm("sorry"), llm("last")]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("two", nodes, ("sorry", "last")))
    await flow.run("two")
    waiting = next(task for task in await flow.children() if task.branch == "a")
    await _asked(flow, waiting.task_id, "cancel")
    assert await flow.path() == ["fan", "sorry", "last"]
    assert "branch 'a' has failed: the task was cancelled" in (await flow.entries("end"))[0]["error"]


async def test_the_time_of_a_node_ends_its_tasks_and_that_of_the_graph_the_run(store: Store, tmp_path: Path) -> None:
    nodes = [
        FAN | {"branches": ["a", "b"], "timeout": 30, "on_error": "sorry"},
        tool("a", "echo", {"text": "x"}),
        ask("b"),
    ]
    nodes += [llm("sorry"), llm("last")]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("two", nodes, ("sorry", "last"), timeout=600))
    await flow.run("two")
    root = await flow.root()
    key = f"pentad:{{0}}:task:default:{root.task_id}"
    log = await store.call("LRANGE", f"{key}:log", 0, -1)
    begun = max(n for n, line in enumerate(log) if b'"kind":"begin"' in line)
    old = from_json(log[begun].split(b"\n", 1)[1])
    assert root.limit_at - old["at_ms"] == 30_000
    await _pass(flow, root.task_id, 31_000)
    await flow.fire("limit")
    assert await flow.path() == ["fan", "sorry", "last"]
    assert "longer than its timeout of 30 s" in (await flow.entries("end"))[0]["error"]
    assert [child.status for child in await flow.children() if child.branch == "b"] == ["cancelled"]


async def _pass(flow: GraphFlow, name: str, ms: int) -> None:
    """Let all that a run has begun lie so much further in the past."""
    key = f"pentad:{{0}}:task:default:{name}"
    lines = await flow.store.call("LRANGE", f"{key}:log", 0, -1)
    for number, line in enumerate(lines):
        meta, message = line.split(b"\n", 1)
        body = from_json(message)
        if "at_ms" in body:
            body["at_ms"] -= ms
            await flow.store.call("LSET", f"{key}:log", number, meta + b"\n" + to_json(body))
    limit = int(await flow.store.call("HGET", key, "limit_at"))
    await flow.store.call("HSET", key, "limit_at", limit - ms)


async def test_branches_share_the_rest_of_the_budget_and_have_their_parents_deadline(
    store: Store, tmp_path: Path
) -> None:
    nodes = [FAN | {"branches": ["a", "b"]}, ask("a"), ask("b"), llm("last")]
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("two", nodes))
    await flow.run("two", budget={"tokens": 100, "usd": 1.0}, deadline="2999-01-01T00:00:00Z")
    for child in await flow.children():
        assert child.budget is not None
        assert (child.budget.tokens, child.budget.usd, child.deadline) == (50, 0.5, (await flow.root()).deadline)


async def test_a_branch_whose_part_of_the_budget_is_used_up_fails_and_says_so(store: Store, tmp_path: Path) -> None:
    nodes = [FAN | {"branches": ["a", "b"]}, llm("a", tools=["echo"]), llm("b"), llm("last")]
    model = NodeModel(a=lambda _: _call())
    flow = await GraphFlow.of(store, tmp_path, model, graph("two", nodes))
    await flow.run("two", budget={"tokens": 10})
    root = await flow.root()
    assert root.status == "failed"
    assert "budget_exceeded: its part of the budget is used up" in root.detail


def _call() -> ModelAnswer:
    return answer("", ("echo", '{"text":"x"}'))


async def test_what_branches_say_is_no_turn_of_the_session_and_no_task_of_its_next_message(
    store: Store, tmp_path: Path
) -> None:
    flow = await GraphFlow.of(store, tmp_path, NodeModel(last="the end"), graph("three", THREE))
    await flow.run("three")
    turns = [
        from_json(raw)["content"] for raw in await store.call("LRANGE", "pentad:{0}:session:default:s1:turns", 0, -1)
    ]
    assert turns == ["go", "the end"]
    session = await store.call("HKEYS", "pentad:{0}:session:default:s1")
    assert not any(child.task_id.encode() in field for child in await flow.children() for field in session)


async def test_branches_need_no_place_of_their_own_among_active_tasks(store: Store, tmp_path: Path) -> None:
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("three", THREE), pentad_tasks_per_session=1)
    await flow.run("three")
    assert (await flow.root()).status == "completed"
    assert not await store.call("HGETALL", "pentad:{0}:places")


async def test_a_branch_sees_the_conversation_so_far_with_the_results_of_tools(store: Store, tmp_path: Path) -> None:
    nodes = [tool("look", "echo", {"text": "seen"}), FAN | {"branches": ["a", "b"]}, llm("a"), llm("b"), llm("last")]
    model = NodeModel()
    flow = await GraphFlow.of(store, tmp_path, model, graph("two", nodes, ("look", "fan")))
    await flow.run("two", "find out")
    (asked,) = [request for request, who in zip(model.requests, model.asked, strict=True) if who == "a"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    assert (asked[1]["content"], asked[3]["content"]) == ("find out", "seen")


@pytest.mark.parametrize("note", [NodeEntry, Exclusion])
def test_no_entry_about_a_run_has_a_field_that_is_kept_with_messages(note: type[Any]) -> None:
    """Records have both in one object, and prompts are rebuilt from records."""
    assert TranscriptMeta.model_fields.keys().isdisjoint(note.model_fields)
