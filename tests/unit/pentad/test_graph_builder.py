"""A program builds a graph step by step, and is told all mistakes of its structure when it is built."""

from typing import Any

import pytest
from pydantic import BaseModel

import pentad
from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.mermaid import mermaid
from tests.unit.agent_graphs.graphs import everything


async def calculator(expression: str) -> str:
    """Calculates."""
    return expression


@pentad.tool(effect="pure", name="look_up")
async def search(n: int) -> str:
    """Looks something up."""
    return str(n)


class State(BaseModel):
    """The state of a run."""

    text: str = ""


class Verdict(BaseModel):
    """What a review says."""

    good: bool


def writer() -> pentad.AgentBuilder:
    return (
        pentad.AgentBuilder("writer")
        .add_llm_node("draft", "Writes.", None, [], "You write.")
        .add_llm_node("review", "Checks.", None, [], "You check.")
        .add_edge("draft", "review")
        .set_entry_point("draft")
        .set_end_points(["review"])
    )


def test_the_graph_of_the_design_document() -> None:
    graph = writer().set_description("AI").set_max_iterations(50).set_timeout(60).build()
    assert graph.spec == GraphSpec.model_validate(
        {
            "name": "writer",
            "description": "AI",
            "max_iterations": 50,
            "timeout": 60.0,
            "nodes": [
                {"key": "draft", "kind": "llm", "description": "Writes.", "tools": [], "system_prompt": "You write."},
                {"key": "review", "kind": "llm", "description": "Checks.", "tools": [], "system_prompt": "You check."},
            ],
            "edges": [{"from": "draft", "to": "review"}],
            "entry": "draft",
            "ends": ["review"],
        }
    )
    assert graph.validate() == []
    assert graph.mermaid() == mermaid(graph.spec)


def test_every_kind_of_node_and_edge_can_be_built() -> None:
    spec = everything()
    graph = (
        pentad.AgentBuilder(spec.name)
        .set_description(spec.description)
        .set_state_schema(spec.state_schema or {})
        .add_llm_node("plan", instruction="planner")
        .add_parallel("both", ["look", "think"], then="each")
        .add_tool_node("look", search, {"n": "state.score"}, writes="notes")
        .add_llm_node("think", "Thinks.", "fast", ["calculator"], "Think.", writes="notes")
        .add_map("each", "state.cities", "visit", max_parallel=2)
        .add_graph_node("visit", "visit_city", on_error="plan")
        .add_llm_node("write", system_prompt="Write of {{state.notes}}.")
        .add_ask_node("approve", "Is it good?")
        .add_edge("plan", "both")
        .add_edge("each", "write")
        .add_conditional_edge("write", "plan", {"state.score": {"<": 0.5}, "state.notes": {"exists": True}})
        .add_conditional_edge("write", "plan", check="is_complete")
        .add_edge("write", "approve")
        .add_conditional_edge("approve", "write", "The person wants a change.")
        .set_entry_point("plan")
        .set_end_points(["approve"])
        .build()
    )
    assert graph.spec == spec


def test_models_tools_and_retries_may_be_given_as_python_has_them() -> None:
    graph = (
        pentad.AgentBuilder("g")
        .set_state_schema(State)
        .add_llm_node("a", model="m", tools=[search, "other"], system_prompt="x", output_schema=Verdict, retry=3)
        .add_graph_node("b", writer().build(), retry={"attempts": 2, "delay": 1.5}, timeout=5)
        .add_conditional_edge("a", "b", check=search)
        .add_edge("a", "b")
        .set_entry_point("a")
        .set_end_points(["b"])
        .build()
    )
    first, second = (node.model_dump() for node in graph.spec.nodes)
    assert (first["tools"], first["output"], first["retry"]) == (
        ["look_up", "other"],
        "json",
        {"attempts": 3, "delay": 0},
    )
    assert first["output_schema"] == Verdict.model_json_schema()
    assert (second["graph"], second["retry"], second["timeout"]) == ("writer", {"attempts": 2, "delay": 1.5}, 5)
    assert graph.spec.edges[0].check == "look_up"
    assert (graph.spec.state_schema or {})["properties"] == State.model_json_schema()["properties"]


def test_all_mistakes_are_told_when_it_is_built() -> None:
    builder = writer().add_edge("draft", "nowhere").add_llm_node("idle", instruction="i").set_end_points("gone")
    with pytest.raises(pentad.WrongGraph) as refused:
        builder.build()
    said = "; ".join(refused.value.problems)
    for told in (
        "edges[1].to: there is no node 'nowhere'",
        "ends[0]: there is",
        "nodes[2] (idle): nothing leads to it",
    ):
        assert told in said
    assert str(refused.value).startswith("the graph is wrong: ")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: pentad.AgentBuilder("g").build(), "nodes: List should have at least 1 item"),
        (lambda: pentad.AgentBuilder("g").add_llm_node("a").build(), "it needs an instruction (a name), or a system"),
        (lambda: writer().add_llm_node("a", tools=[calculator]), "node 'a': tools: <function calculator"),
        (lambda: writer().add_tool_node("a", calculator), "node 'a': tool: <function calculator"),
        (lambda: writer().add_conditional_edge("draft", "review"), "edge 'draft' to 'review': give a condition"),
        (lambda: writer().add_conditional_edge("a", "b", "x", check="t").build(), "an edge has one condition at most"),
        (lambda: writer().add_llm_node("a", instruction="i", tools=[]).build(), "leave out tools"),
        (lambda: writer().add_tool_node("t", "t", {"a": object()}).build(), "Unable to serialize unknown type"),
    ],
)
def test_a_mistake_says_where_it_is(wrong: Any, told: str) -> None:
    with pytest.raises(pentad.WrongGraph) as refused:
        wrong()
    assert told in str(refused.value)


def test_a_built_graph_never_changes() -> None:
    args: dict[str, Any] = {"of": ["a"]}
    builder = pentad.AgentBuilder("g").add_tool_node("t", "t", args).set_entry_point("t").set_end_points(["t"])
    graph = builder.build()
    args["of"].append("b")
    builder.set_description("Another.").add_ask_node("q", "?")
    assert graph.spec.model_dump()["nodes"][0]["args"] == {"of": ["a"]}
    assert (graph.spec.description, len(graph.spec.nodes)) == ("", 1)
    with pytest.raises(AttributeError):
        graph.spec = everything()  # type: ignore[misc]
