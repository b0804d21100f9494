"""What a run of a graph writes to its state fits the schema of the state, or the node that has written it fails."""

from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.shared.instructions.state_check import StateCheck
from pentad.shared.models.ports import ModelRefused
from pentad.shared.store.store import Store
from tests.integration.handlers.graph_flow import GraphFlow, NodeModel, graph, llm, tool

ANY = {"type": ["number", "string", "array", "object"]}
WAYS = 24
ALTERNATIVES = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(WAYS)}
"""Definitions that hold one value against 2**24 alternatives."""


def state_of(**properties: Any) -> dict[str, Any]:
    """A schema of a state, all of whose keys are required at its end."""
    return {"type": "object", "properties": properties, "required": [*properties]}


SCORE = state_of(score={"type": "number", "maximum": 1}, end={"type": "string"})


def rated(schema: dict[str, Any] = SCORE, **fields: Any) -> GraphSpec:
    """A graph whose first node writes a score."""
    score = llm("score", output="json", output_schema=ANY, **fields)
    ways = [("score", "end"), ("sorry", "end")] if "on_error" in fields else [("score", "end")]
    between = [llm("sorry")] if "on_error" in fields else []
    return graph("rated", [score, *between, llm("end", writes="end")], *ways, state_schema=schema)


async def test_a_wrong_write_fails_its_node_which_is_tried_again_and_only_the_right_one_is_kept(
    store: Store, tmp_path: Path
) -> None:
    values = iter(('"high"', "0.5"))
    model = NodeModel(score=lambda _: next(values))
    flow = await GraphFlow.of(store, tmp_path, model, rated(retry={"attempts": 2}))
    await flow.run("rated")
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    assert model.asked == ["score", "score", "end"]
    (again,) = await flow.entries("retry")
    assert again["error"] == 'the state does not fit the graph\'s state_schema: score: "high" is not of type "number"'
    assert await flow.state() == {"score": 0.5, "end": "end has said it"}
    told = [event["content"] for event in await flow.events("message")]
    assert told == ["0.5", "end has said it"], "a wrong value is told to nobody"


async def test_after_its_last_attempt_a_wrong_write_leads_to_the_node_of_on_error(store: Store, tmp_path: Path) -> None:
    flow = await GraphFlow.of(store, tmp_path, NodeModel(score="7"), rated(on_error="sorry"))
    await flow.run("rated")
    assert await flow.path() == ["score", "sorry", "end"]
    assert await flow.state() == {"end": "end has said it"}
    left, *_ = await flow.entries("end")
    assert "score: 7 is greater than the maximum of 1" in left["error"]


async def test_without_another_way_a_wrong_write_fails_the_run_which_goes_on_when_asked(
    store: Store, tmp_path: Path
) -> None:
    values = iter(("[1]", "1"))
    flow = await GraphFlow.of(store, tmp_path, model := NodeModel(score=lambda _: next(values)), rated())
    await flow.run("rated")
    root = await flow.root()
    assert (root.status, root.reason, root.node) == ("failed", "graph_error", "score")
    assert "node 'score': the state does not fit the graph's state_schema: score: [1] is not" in root.detail
    await flow.say("again", task_id=root.task_id)
    await flow.drive()
    assert ((await flow.root()).status, model.asked) == ("completed", ["score", "score", "end"])


async def test_a_result_of_a_tool_is_checked_before_it_is_written(store: Store, tmp_path: Path) -> None:
    wrong = tool("say", "echo", {"text": "no number"}, writes="score")
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), graph("tools", [wrong], state_schema=SCORE))
    await flow.run("tools")
    assert "node 'say': the state does not fit" in (await flow.root()).detail
    assert await flow.state() == {}


async def test_a_run_with_a_wrong_first_state_fails_at_its_first_node_and_a_right_one_begins_another(
    store: Store, tmp_path: Path
) -> None:
    """Neither the node's attempts nor its ``on_error`` can make the state right."""
    model = NodeModel(score="1")
    flow = await GraphFlow.of(store, tmp_path, model, rated(retry={"attempts": 3}, on_error="sorry"))
    await flow.run("rated", state={"score": {"deep": 1}, "of no schema": 1})
    root = await flow.root()
    assert (root.status, root.reason, model.asked) == ("failed", "graph_error", [])
    assert root.detail == (
        "node 'score': the run cannot begin: the state does not fit the graph's state_schema: "
        'score: {"deep":1} is not of type "number"'
    )
    (ended,) = await flow.events("node_end")
    assert (ended["node"], ended["error"], ended.get("next")) == ("score", root.detail, None)
    assert any(line.get("content") == "go" for line in await flow.transcript()), "what was said stays"
    await flow.say("now", task_id=root.task_id, state={"score": 0, "of no schema": 1})
    await flow.drive()
    assert ((await flow.root()).status, model.asked) == ("completed", ["score", "end"])
    assert (await flow.state())["of no schema"] == 1
    assert [event["node"] for event in await flow.events("node_start")] == ["score", "score", "end"]


async def test_a_graph_in_a_graph_is_given_a_state_that_fits_its_own_schema(store: Store, tmp_path: Path) -> None:
    inner = {"key": "inner", "kind": "graph", "graph": "rated"}
    outer = graph("outer", [llm("score"), inner], ("score", "inner"))
    flow = await GraphFlow.of(store, tmp_path, model := NodeModel(), rated(), outer)
    await flow.run("outer", state={"score": "high"})
    (child,) = await flow.children()
    assert (child.status, model.asked) == ("failed", ["score"])
    assert "node 'score': the run cannot begin: the state does not fit" in (await flow.root()).detail


FAN = {"key": "fan", "kind": "parallel", "branches": ["a", "b", "c"], "join": "all", "then": "last"}


async def test_what_branches_write_together_is_checked_and_none_of_them_runs_again(
    store: Store, tmp_path: Path
) -> None:
    branches = [llm(key, output="json", output_schema=ANY, writes="votes") for key in "abc"]
    votes = state_of(votes={"type": "number", "maximum": 5, "reducer": "sum"})
    fan = FAN | {"retry": {"attempts": 2}}
    model = NodeModel(a="1", b="2", c="3")
    flow = await GraphFlow.of(store, tmp_path, model, graph("vote", [fan, *branches, llm("last")], state_schema=votes))
    await flow.run("vote")
    root = await flow.root()
    assert (root.status, sorted(model.asked)) == ("failed", ["a", "b", "c"])
    assert "votes: 6 is greater than the maximum of 5" in root.detail
    assert [child.status for child in await flow.children()] == ["completed"] * 3
    assert len(await flow.entries("joined")) == 3


async def test_a_branch_that_writes_wrongly_fails_alone_and_is_tried_again_alone(store: Store, tmp_path: Path) -> None:
    says = iter(("9", "2"))
    branches = [llm(key, output="json", output_schema=ANY, writes="votes", retry={"attempts": 2}) for key in "abc"]
    votes = state_of(votes={"type": "number", "maximum": 6, "reducer": "sum"})
    model = NodeModel(a="1", b=lambda _: next(says), c="3")
    flow = await GraphFlow.of(store, tmp_path, model, graph("vote", [FAN, *branches, llm("last")], state_schema=votes))
    await flow.run("vote")
    assert (await flow.root()).status == "completed", (await flow.root()).detail
    assert sorted(model.asked) == ["a", "b", "b", "c", "last"]
    joined, _ = await flow.entries("end")
    assert joined["writes"] == [["votes", 1], ["votes", 2], ["votes", 3]]


async def test_a_schema_that_would_be_checked_for_hours_fails_the_node_in_seconds(store: Store, tmp_path: Path) -> None:
    schema = state_of(score={"$ref": "#/$defs/a0"}) | {"$defs": ALTERNATIVES | {f"a{WAYS}": {"type": "object"}}}
    flow = await GraphFlow.of(store, tmp_path, NodeModel(score="1"), rated(schema))
    await flow.run("rated")
    root = await flow.root()
    assert (root.status, root.reason) == ("failed", "graph_error")
    assert "a check against state_schema was ended after 2 s" in root.detail


@pytest.mark.parametrize(
    "schema",
    [None, state_of(score={"reducer": "append", "title": "Score"}, end={}, more=True), {"type": "object"}],
)
async def test_a_graph_whose_schema_says_nothing_of_values_has_nothing_checked(
    store: Store, tmp_path: Path, schema: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> str:
        raise ModelRefused("it was checked")

    spec = graph("free", [llm("score"), llm("end")], ("score", "end"), state_schema=schema)
    assert StateCheck(spec.state_schema).keys == frozenset()
    monkeypatch.setattr("pentad.shared.instructions.output.Output.read", never)
    flow = await GraphFlow.of(store, tmp_path, NodeModel(), spec)
    await flow.run("free", state={"score": [1]})
    assert (await flow.root()).status == "completed", (await flow.root()).detail
