"""Mistakes of a graph: each is told with its place, all of them at once, and a sound graph has none."""

from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pentad.contracts.graphs import MAX_EDGES, MAX_NODES, GraphSpec

HOLDS = {"where": {"state.score": {">=": 0.8}}}
MAX_CHECK_S = 2.0
"""Processor time of one check of the hardest graph, a slow machine included."""


def llm(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "llm", "system_prompt": "Say something.", **fields}


def tool(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "tool", "tool": "look_up", **fields}


def parallel(key: str, branches: list[str], **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "parallel", "branches": branches, "join": "all", **fields}


def mapped(key: str, node: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "map", "over": "state.items", "node": node, **fields}


def edge(source: str, target: str, **condition: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **condition}


def graph(nodes: list[Any], edges: list[Any] | None = None, ends: list[str] | None = None, **fields: Any) -> Any:
    last = nodes[-1]["key"]
    return {
        "name": "g",
        "nodes": nodes,
        "edges": edges or [],
        "entry": nodes[0]["key"],
        "ends": ends or [last],
    } | fields


def problems(row: Any) -> str:
    """All mistakes of a graph in one text; empty for a sound one."""
    try:
        GraphSpec.model_validate(row, extra="forbid")
    except ValidationError as error:
        return "; ".join(each["msg"] for each in error.errors(include_input=False))
    return ""


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


A, B, C = llm("a"), llm("b"), llm("c")

MISTAKES: dict[str, tuple[Any, str]] = {
    "two nodes of one key": (graph([A, B, A], [edge("a", "b")], ["b"]), "nodes[2] (a).key: nodes[0] (a) has this key"),
    "a node that is called fail": (graph([llm("fail")]), "nodes[0] (fail).key: 'fail' is a word of on_error"),
    "an edge from nowhere": (graph([A], [edge("x", "a")]), "edges[0].from: there is no node 'x'"),
    "an edge to nowhere": (graph([A], [edge("a", "x", **HOLDS)]), "edges[0].to: there is no node 'x'"),
    "an unknown entry": (graph([A], entry="x"), "entry: there is no node 'x'"),
    "an unknown end": (graph([A], ends=["a", "x"]), "ends[1]: there is no node 'x'"),
    "an unknown branch": (
        graph([parallel("p", ["a", "x"], then="b"), A, B]),
        "nodes[0] (p).branches[1]: there is no node 'x'",
    ),
    "an unknown node of a map": (graph([mapped("m", "x")]), "nodes[0] (m).node: there is no node 'x'"),
    "an unknown node after a join": (
        graph([parallel("p", ["a", "b"], then="x"), A, B], ends=["a"]),
        "nodes[0] (p).then: there is no node 'x'",
    ),
    "an unknown node after an error": (graph([llm("a", on_error="x")]), "nodes[0] (a).on_error: there is no node 'x'"),
    "a node that nothing leads to": (graph([A, B], ends=["a"]), "nodes[1] (b): nothing leads to it"),
    "a node without a way to an end": (
        graph([A, B, C], [edge("a", "b", **HOLDS), edge("a", "c")]),
        "nodes[1] (b): node 'b' leads nowhere: add an edge, or name it among ends",
    ),
    "a way to an end by failing alone": (graph([llm("a", on_error="b"), B]), "nodes[0] (a): node 'a' leads nowhere"),
    "a join that leads nowhere": (
        graph([A, parallel("p", ["b", "c"]), B, C], [edge("a", "p")], ["b"]),
        "nodes[1] (p): node 'p' leads nowhere",
    ),
    "a cycle without a condition": (
        graph([A, B, C], [edge("a", "b"), edge("b", "a")]),
        "nodes[0] (a): a -> b -> a has no condition and would never end",
    ),
    "a node that leads to itself": (graph([A, B], [edge("a", "a")]), "nodes[0] (a): a -> a has no condition"),
    "a join that begins again": (
        graph([parallel("p", ["a", "b"], then="c"), A, B, C], [edge("c", "p")], ["a"]),
        "p -> c -> p has no condition",
    ),
    "a branch that starts its own parallel": (
        graph([parallel("p", ["a", "b"], then="c"), A, B, C], [edge("a", "p")]),
        "p -> a -> p has no condition",
    ),
    "a branch that starts a parallel that decides afterwards": (
        graph([parallel("p", ["a", "b"]), A, B, C], [edge("a", "p"), edge("p", "c", **HOLDS)]),
        "p -> a -> p has no condition",
    ),
    "a map of itself": (graph([mapped("m", "m")]), "m -> m has no condition"),
    "two defaults": (
        graph([A, B, C], [edge("a", "b"), edge("a", "c")], ["b", "c"]),
        "edges[1]: edges[0] is the default of 'a' already",
    ),
    "an end with a default": (graph([A, B], [edge("a", "b")], ["a", "b"]), "edges[0]: 'a' is among ends"),
    "an end with a node after it": (
        graph([parallel("p", ["a", "b"], then="c"), A, B, C], ends=["p", "c"]),
        "nodes[0] (p).then: the node is among ends",
    ),
    "both edges and a node after the join": (
        graph([parallel("p", ["a", "b"], then="c"), A, B, C], [edge("p", "c", **HOLDS)]),
        "nodes[0] (p).then: edges leave the node, too",
    ),
    "a map with both": (
        graph([mapped("m", "a", then="c"), A, C], [edge("m", "c")]),
        "nodes[0] (m).then: edges leave the node, too",
    ),
    "a join of more than there are": (
        graph([parallel("p", ["a", "b"], join=3, then="c"), A, B, C]),
        "nodes[0] (p).join: 3 branches must succeed, and there are 2",
    ),
    "a branch that is named twice": (
        graph([parallel("p", ["a", "b", "a"], then="c"), A, B, C]),
        "nodes[0] (p).branches[2]: 'a' is named twice",
    ),
    "branches that write one key": (
        graph([parallel("p", ["a", "b"], then="c"), llm("a", writes="text"), llm("b", writes="text"), C]),
        "nodes[0] (p): reducers missing: branches 'a' and 'b' both write 'text': declare "
        "state_schema.properties.text.reducer",
    ),
    "branches that come to the same writing node": (
        graph([parallel("p", ["a", "b"], then="c"), A, B, tool("t"), C], [edge("a", "t"), edge("b", "t")]),
        "both write 't'",
    ),
    "a branch of a branch that writes it, too": (
        graph(
            [
                parallel("p", ["q", "b"], then="c"),
                parallel("q", ["x", "y"], then="z"),
                *(llm(key, writes="text") for key in "bx"),
                *(llm(key) for key in "yzc"),
            ]
        ),
        "branches 'q' and 'b' both write 'text'",
    ),
    "an answer of a form that is written": (
        graph([parallel("p", ["a", "b"], then="c"), llm("a", output="stream"), llm("b", writes="a"), C]),
        "both write 'a'",
    ),
    "a reducer that there is not": (
        graph([A], state_schema=schema(n={"reducer": "average"})),
        "state_schema.properties.n.reducer: there are only replace, append, merge, sum",
    ),
    "a reducer that is no text": (graph([A], state_schema=schema(n={"reducer": ["sum"]})), "n.reducer: there are only"),
    "a schema that is of no object": (
        graph([A], state_schema={}),
        'state_schema.type: a state is an object: write "ty',
    ),
    "a schema whose properties are a list": (
        graph([A], state_schema={"type": "object", "properties": []}),
        "state_schema.properties: it must be an object",
    ),
    "a place of a map that the state lacks": (
        graph([mapped("m", "a"), A], ends=["m"], state_schema=schema(n={})),
        "nodes[0] (m).over: state.items: the state has no 'items'",
    ),
    "a place of a condition that the state lacks": (
        graph([A, B], [edge("a", "b", **HOLDS), edge("a", "b")], state_schema=schema()),
        "edges[0].where: state.score: the state has no 'score'",
    ),
    "a place of arguments that the state lacks": (
        graph([tool("t", args={"a": [{"b": "state.city.name"}]})], state_schema=schema()),
        "nodes[0] (t).args: state.city.name: the state has no 'city'",
    ),
    "a place within an argument that the state lacks": (
        graph([tool("t", args={"a": "in {{state.city}}"})], state_schema=schema()),
        "nodes[0] (t).args: state.city: the state has no 'city'",
    ),
    "a place of a prompt that the state lacks": (
        graph([llm("a", system_prompt="Write of {{ state.topic }}.")], state_schema=schema()),
        "nodes[0] (a).system_prompt: state.topic: the state has no 'topic'",
    ),
    "a place of a question that the state lacks": (
        graph([{"key": "a", "kind": "ask", "question": "Is {{state.draft.text}} good?"}], state_schema=schema()),
        "nodes[0] (a).question: state.draft.text: the state has no 'draft'",
    ),
    "an item outside of a map": (
        graph(
            [mapped("m", "a", then="b"), A, llm("b", system_prompt="{{state.item}}")],
            state_schema=schema(items={"type": "array"}),
        ),
        "nodes[2] (b).system_prompt: state.item: the state has no 'item'",
    ),
    "an item after the map": (
        graph(
            [mapped("m", "a", then="b"), A, llm("b", system_prompt="{{state.item}}")],
            [edge("a", "b")],
            state_schema=schema(items={"type": "array"}),
        ),
        "nodes[2] (b).system_prompt: state.item: the state has no 'item'",
    ),
    "a condition that compares with nothing": (
        graph([A, B], [edge("a", "b", where={"state.x": {}}), edge("a", "b")]),
        "edges[0].where.state.x: it compares the value with nothing",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(name: str) -> None:
    row, told = MISTAKES[name]
    assert told in problems(row)


def test_all_mistakes_are_told_at_once() -> None:
    said = problems(graph([A, A, llm("b", on_error="x")], [edge("a", "y")], ["z"], state_schema={}))
    assert [each.split(":")[0] for each in said.removeprefix("Value error, ").split("; ")] == [
        "nodes[1] (a).key",
        "ends[0]",
        "nodes[2] (b).on_error",
        "edges[0].to",
        "nodes[2] (b)",
        "nodes[0] (a)",
        "state_schema.type",
    ]


SOUND: dict[str, Any] = {
    "one node": graph([A]),
    "an end that may go on": graph([A, B], [edge("b", "a", when="something is missing"), edge("a", "b")], ["b"]),
    "a cycle with a condition": graph([A, B, C], [edge("a", "b"), edge("b", "c", when="good"), edge("b", "a")]),
    "a node that is reached by failing": graph([llm("a", on_error="b"), B], ends=["a", "b"]),
    "a node that is tried again when it has failed": graph([llm("a", on_error="a")]),
    "branches that end without edges and by the join": graph(
        [parallel("p", ["a", "b"], join="any", then="c"), A, B, C], [edge("a", "c")]
    ),
    "a join whose next node edges name": graph([parallel("p", ["a", "b"], join=1), A, B, C], [edge("p", "c")]),
    "one key of two branches with a reducer": graph(
        [parallel("p", ["a", "b"], then="c"), llm("a", writes="n"), llm("b", writes="n"), C],
        state_schema=schema(n={"type": "number", "reducer": "sum"}),
    ),
    "one key that is written before and after a join": graph(
        [parallel("p", ["a", "b"], then="c"), llm("a", writes="n"), B, llm("c", writes="n")]
    ),
    "a node after the join that writes, to which both branches come": graph(
        [parallel("p", ["a", "b"], then="c"), A, B, llm("c", writes="n")], [edge("a", "c"), edge("b", "c")]
    ),
    "one key of the items of two maps": graph(
        [parallel("p", ["m", "n"], then="c"), mapped("m", "a"), mapped("n", "a"), llm("a", writes="x"), C]
    ),
    "the item of a map, as deep as its node goes": graph(
        [
            mapped("m", "a", then="c"),
            llm("a", system_prompt="{{state.item.name}} {{state.index}} {{{{state.nothing}}}}"),
            tool("t", args={"item": "state.item", "n": "state.index", "found": "state.a", "text": "statement"}),
            C,
        ],
        [edge("a", "t", where={"state.item": {"exists": True}}), edge("a", "c")],
        state_schema=schema(items={"type": "array"}, a={}),
    ),
    "no places are checked without a schema": graph([llm("a", system_prompt="{{state.anything}}")]),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_graph_has_no_mistake(name: str) -> None:
    assert problems(SOUND[name]) == ""


def wheel(number: int) -> str:
    return f"n{number % MAX_NODES}"


def test_a_sound_graph_of_the_greatest_size_is_checked_within_milliseconds() -> None:
    nodes = [tool(wheel(number)) for number in range(MAX_NODES)]
    edges = [edge(wheel(number), wheel(number + 1)) for number in range(MAX_NODES - 1)]
    edges += [edge(wheel(n % (MAX_NODES - 1)), wheel(7 * n + 3), **HOLDS) for n in range(MAX_EDGES - len(edges))]
    began = thread_time()
    assert problems(graph(nodes, edges, state_schema=schema(score={}))) == ""
    assert thread_time() - began < MAX_CHECK_S


def test_the_hardest_graphs_are_refused_in_time() -> None:
    edges = [edge(wheel(number), wheel(7 * number + 3), **HOLDS) for number in range(MAX_EDGES)]
    branches = [parallel(wheel(n), [wheel(n + at) for at in range(1, 6)], writes="x") for n in range(MAX_NODES)]
    maps = [mapped(wheel(n), wheel(n + 1)) for n in range(MAX_NODES)]
    chain = [edge(wheel(number), wheel(number + 1)) for number in range(MAX_NODES)]
    crowded = [parallel(wheel(n), [wheel(n + at) for at in range(64)]) for n in range(MAX_NODES)]
    for nodes, ways, told in (
        (branches, edges, "reducers missing"),
        (maps, edges, "has no 'items'"),
        ([tool(wheel(n)) for n in range(MAX_NODES)], chain, "would never end"),
        (crowded, [], "12800 branches together: at most 1000"),
    ):
        began = thread_time()
        assert told in problems(graph(nodes, ways, state_schema=schema()))
        assert thread_time() - began < MAX_CHECK_S


KEYS = st.sampled_from("a b c p m fail state.x state.item x".split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | KEYS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=6), inner, max_size=4)
)
KINDS = st.sampled_from("llm tool graph parallel map ask none".split())
NODES = st.fixed_dictionaries(
    {"key": KEYS | JSON, "kind": KINDS},
    optional={
        "system_prompt": st.sampled_from(["x", "{{state.x}}", "{{state.item.y}}"]) | JSON,
        **dict.fromkeys(("tool", "graph", "instruction", "node", "then", "on_error", "writes", "over"), KEYS | JSON),
        "branches": st.lists(KEYS, max_size=4) | JSON,
        "join": st.sampled_from(["all", "any", 1, 2, 65]) | JSON,
        "question": st.text(max_size=5),
        "output": st.sampled_from(["json", "stream"]) | JSON,
        **dict.fromkeys(("args", "output_schema", "retry", "timeout"), JSON),
    },
)
EDGES = st.fixed_dictionaries(
    {"from": KEYS | JSON, "to": KEYS | JSON}, optional=dict.fromkeys(("when", "where", "check"), KEYS | JSON)
)
GRAPHS = st.fixed_dictionaries(
    {
        "name": st.just("g") | JSON,
        "nodes": st.lists(NODES, max_size=6) | JSON,
        "edges": st.lists(EDGES, max_size=8) | JSON,
        "entry": KEYS | JSON,
        "ends": st.lists(KEYS, max_size=3) | JSON,
    },
    optional={"state_schema": st.fixed_dictionaries({"type": st.just("object"), "properties": JSON}) | JSON},
)


@given(GRAPHS | JSON)
def test_any_json_is_a_graph_or_refused_with_a_validation_error(row: Any) -> None:
    try:
        made = GraphSpec.model_validate(row)
    except ValidationError:
        return
    assert GraphSpec.model_validate_json(made.to_json()).to_json() == made.to_json()


def test_values_that_no_json_has_or_that_are_nested_without_end_are_refused() -> None:
    deep: Any = "state.x"
    for _ in range(5_000):
        deep = [deep]
    assert "depth exceeded" in problems(graph([tool("t", args={"a": deep})]))
    assert "surrogates not allowed" in problems(graph([tool("t", args={"a": "\ud800"})]))
