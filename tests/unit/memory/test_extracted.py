"""What of a model's answer is taken: only what a segment says, with the narrowest owner; nothing hostile gets in."""

from typing import Any

import pytest

from pentad.shared.graph.graph_limits import check_edges, check_nodes
from pentad.shared.graph.knowledge import EdgeType, NodeKind
from pentad.shared.graph.merging import node_id
from pentad.shared.memory.extraction import (
    MOST_EDGES,
    MOST_NODES,
    MOST_QUESTION_CHARS,
    MOST_SEGMENTS,
    Extracted,
    NearNode,
    extracted,
    segments_shown,
)
from pentad.shared.memory.extraction_groups import extraction_question
from pentad.shared.memory.points import cut_task
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_of
from tests.unit.segments.transcripts import HOSTILE, answered, calling, said

TALK = [
    said("The ferry leaves at ten now.", user_id="ada"),
    answered("Noted."),
    said("My boss is Olav.", user_id="bob"),
    said("It is windy here."),
]
SEGMENTS = segments_shown(cut_task("acme", "task-0-1", "s1", TALK))
NEAR = [NearNode("old", "ada", "fact", "The ferry leaves at nine."), NearNode("wind", None, "concept", "Wind")]
FACT: dict[str, Any] = {"id": "a", "kind": "fact", "text": "The ferry leaves at ten.", "importance": 0.8}


def taken(value: Any, same: dict[str, str] | None = None) -> Extracted:
    return extracted("acme", value, SEGMENTS, NEAR, same or {})


def node(*segments: Any, **fields: Any) -> dict[str, Any]:
    return {**FACT, "segments": list(segments), **fields}


def edge(source: str, target: str, *segments: Any, **fields: Any) -> dict[str, Any]:
    return {"from": source, "to": target, "type": "related_to", "weight": 0.5, "segments": list(segments), **fields}


def test_a_share_beyond_every_number_is_the_whole_and_breaks_nothing() -> None:
    found = taken({"nodes": [node(1, importance=10**400), node(4, id="b", importance=-(10**400))], "edges": []})
    assert ([each.importance for each in found.nodes.values()], found.refused) == ([1.0], 1)


def test_a_node_rests_on_the_segments_that_it_names() -> None:
    [made] = taken({"nodes": [node(1, 1, 2)], "edges": []}).nodes.values()
    assert (made.kind, made.text, made.owner, made.importance) == (
        NodeKind.FACT,
        FACT["text"],
        Owner("acme", "ada"),
        0.8,
    )
    assert [anchor_of(each.anchor).position for each in made.supports] == [0, 1]
    assert made.id == node_id(Owner("acme", "ada"), NodeKind.FACT, "the ferry leaves AT TEN.")


@pytest.mark.parametrize("segments", [(), (0,), (5,), (-1,), ("1",), (True,), (None,), (10**30,)])
def test_what_no_segment_says_is_refused_and_counted(segments: tuple[Any, ...]) -> None:
    found = taken({"nodes": [node(*segments)], "edges": []})
    assert (found.nodes, found.refused) == ({}, 1)


def test_what_rests_on_two_users_is_refused_and_on_one_is_his() -> None:
    found = taken({"nodes": [node(1, 3), node(4, id="b"), node(3, 4, id="c")], "edges": []})
    assert {name: each.owner.user for name, each in found.nodes.items()} == {"b": None, "c": "bob"}
    assert found.refused == 1


def test_an_edge_joins_what_is_there_and_has_the_narrowest_owner() -> None:
    nodes = [node(1), node(4, id="b", text="It is windy."), node(3, id="c", text="Olav is the boss.")]
    edges = [
        edge("a", "k1", 1, type="contradicts"), edge("b", "k2", 4), edge("a", "b", 1), edge("a", "c", 4),
        edge("a", "none", 1), edge("k9", "a", 1), edge("a", "a", 1), edge("a", "b"), edge("a", "b", 1, type="loves"),
    ]  # fmt: skip
    found = taken({"nodes": nodes, "edges": edges})
    a, b = found.nodes["a"].id, found.nodes["b"].id
    assert [(each.source, each.target, each.owner.user) for each in found.edges] == [
        (a, "old", "ada"), (b, "wind", None), (a, b, "ada")
    ]  # fmt: skip
    assert [each.target for each in found.contradicted] == ["old"]
    assert found.refused == 6


def test_what_is_known_already_is_joined_instead_of_doubled() -> None:
    found = taken({"nodes": [node(1), node(4, id="b", text="Windy")], "edges": [edge("a", "b", 1)]}, {"a": "old"})
    assert found.nodes["a"].id == "old"
    assert found.edges[0].source == "old"


def test_what_hardly_matters_does_not_enter() -> None:
    assert taken({"nodes": [node(1, importance=0.1)], "edges": []}).refused == 1


def test_no_more_is_taken_than_may() -> None:
    nodes = [node(4, id=f"n{n}", text=f"Fact {n}") for n in range(MOST_NODES + 5)]
    edges = [edge("n0", f"n{1 + n % 30}", 4, type=list(EdgeType)[n // 30]) for n in range(MOST_EDGES + 5)]
    found = taken({"nodes": nodes, "edges": edges})
    assert (len(found.nodes), len(found.edges)) == (MOST_NODES, MOST_EDGES)


@pytest.mark.parametrize(
    "value",
    [None, 7, "x", [], {}, {"nodes": None, "edges": 7}, {"nodes": [None, 7, [], {}], "edges": [None, {}]},
     {"nodes": [node(1, text=7)]}, {"nodes": [node(1, text=" ?! ")]}, {"nodes": [node(1, kind="entity")]},
     {"nodes": [node(1, kind=[])]}, {"nodes": [{**FACT, "segments": {"1": 1}}]}],
)  # fmt: skip
def test_what_is_no_answer_adds_nothing(value: Any) -> None:
    assert (taken(value).nodes, taken(value).edges) == ({}, [])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_give_what_the_graph_takes(text: str) -> None:
    wild = {"importance": float("nan"), "true_from": text[:50], "true_until": "0001-01-01T00:00:00Z", "id": text[:9]}
    found = taken({"nodes": [node(1, text=text, **wild)], "edges": [edge(text[:9], "k1", 1, weight=float("inf"))]})
    check_nodes(list(found.nodes.values()))
    check_edges(found.edges)


def test_times_are_taken_where_they_are_times() -> None:
    [made] = taken({"nodes": [node(1, true_from="2030-01-01T00:00:00Z", true_until="soon")]}).nodes.values()
    assert (made.true_from, made.true_until) == (1893456000000, None)


def test_the_model_is_shown_numbered_segments_within_bounds() -> None:
    many = [answered(None, tool_calls=[calling("find", "{}")]), *(said("word " * 100) for _ in range(MOST_SEGMENTS))]
    shown = segments_shown(cut_task("acme", "task-0-1", "s1", many))
    assert sum(len(each.text) for each in shown) <= MOST_QUESTION_CHARS
    assert len(segments_shown(cut_task("acme", "task-0-1", "s1", [said(f"{n}") for n in range(500)]))) == MOST_SEGMENTS
    question = extraction_question([SEGMENTS], NEAR)
    assert '"n":1,"type":"user_message","speaker":"ada"' in question
    assert '{"id":"k1","kind":"fact","text":"The ferry leaves at nine."}' in question
    assert "old" not in question
