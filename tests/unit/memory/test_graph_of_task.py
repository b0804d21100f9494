"""What a task adds to the graph without a model: names where they stand, tasks in their order, each owner's his own."""

from collections.abc import Sequence
from typing import Any

import pytest

from pentad.contracts.records import SegmentType
from pentad.shared.graph.graph_limits import check_edges, check_nodes
from pentad.shared.graph.knowledge import EdgeType, MemoryNode, NodeKind
from pentad.shared.graph.merging import merged_edges, merged_nodes
from pentad.shared.memory.points import cut_task
from pentad.shared.memory.task_graph import MOST_ENTITIES, MOST_MENTIONS, TaskGraph, task_before, task_graph
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.expansion import expanded
from tests.unit.segments.transcripts import AT, HOSTILE, answered, calling, result, said

TALK = [said("We met Mimi Solberg in Oslo."), answered("And what did MIMI SOLBERG say?"), said("Nothing.")]
BOTH = [said("I live in Bergen", user_id="ada"), answered("Noted."), said("My boss is Olav Hagen", user_id="bob")]


def learned(messages: Sequence[dict[str, Any]], before: str = "") -> TaskGraph:
    return task_graph(cut_task("acme", "task-0-2", "s1", messages), before)


def entities(graph: TaskGraph) -> dict[str, MemoryNode]:
    return {node.text: node for node in graph.nodes if node.kind is NodeKind.ENTITY}


def test_a_name_is_a_node_as_it_was_written_that_rests_on_all_that_mentions_it() -> None:
    found = entities(learned(TALK))
    assert set(found) == {"Mimi Solberg", "Oslo"}
    quoted = [expanded("acme", anchor_of(each.anchor), TALK).focus.text for each in found["Mimi Solberg"].supports]
    assert quoted == [TALK[0]["content"], TALK[1]["content"]]


def test_each_name_is_part_of_its_task_whose_node_says_none_of_its_words() -> None:
    graph = learned(TALK)
    [task] = [node for node in graph.nodes if node.kind is NodeKind.TASK]
    assert task.text == "task-0-2"
    assert {(edge.source, edge.target, edge.type) for edge in graph.edges} == {
        (node.id, task.id, EdgeType.PART_OF) for node in entities(graph).values()
    }
    assert all(edge.supports == entities(graph)[name].supports for edge in graph.edges
               for name, node in entities(graph).items() if node.id == edge.source)  # fmt: skip


def test_a_name_that_only_begins_a_sentence_counts_where_another_sentence_is_sure() -> None:
    assert entities(learned([said("Mimi is here.")])) == {}
    found = entities(learned([said("Mimi is here."), answered("So I see, hello dear Mimi.")]))
    assert len(found["Mimi"].supports) == 2


def test_what_is_one_users_is_his_node_also_in_the_same_task() -> None:
    graph = learned(BOTH)
    assert {name: node.owner.user for name, node in entities(graph).items()} == {"Bergen": "ada", "Olav Hagen": "bob"}
    tasks = [node.owner.user for node in graph.nodes if node.kind is NodeKind.TASK]
    assert tasks == ["ada", "bob"]
    assert {support.user for node in graph.nodes for support in node.supports} == {"ada", "bob"}
    assert all(support.user == node.owner.user for node in graph.nodes for support in node.supports)


def test_a_task_follows_the_one_before_which_may_still_be_unknown() -> None:
    graph = learned(TALK, "task-0-1")
    names = {node.id: node.text for node in graph.nodes}
    [follows] = [edge for edge in graph.edges if edge.type is EdgeType.FOLLOWED_BY]
    assert (names[follows.source], names[follows.target]) == ("task-0-1", "task-0-2")
    assert {anchor_of(each.anchor).task_id for each in follows.supports} == {"task-0-2"}
    assert learned(TALK, "task-0-2") == learned(TALK), "none follows itself"


def test_the_order_in_which_tasks_are_learned_changes_nothing() -> None:
    first = task_graph(cut_task("acme", "task-0-1", "s1", TALK), "")
    second = learned([said("Oslo again, dear Oslo", at="2030-02-01T12:00:00.000Z")], "task-0-1")
    assert merged_nodes(first.nodes + second.nodes) == merged_nodes(second.nodes + first.nodes)
    assert merged_edges(first.edges + second.edges) == merged_edges(second.edges + first.edges)


@pytest.mark.parametrize(
    ("messages", "before"),
    [
        ([], ""),
        ([said("hello")], ""),
        ([said("a", origin="context"), said("b")], ""),
        ([said("a", origin="context", task_id="task-0-1"), answered("b", origin="context", task_id="task-0-3")],
         "task-0-3"),
        ([said("a", origin="context", task_id=7)], ""),
        ([said("a", origin="context", task_id="no id")], ""),
        ([said("a", task_id="task-0-1")], ""),
    ],
)  # fmt: skip
def test_the_task_before_is_the_one_that_was_spoken_to_last(messages: list[dict[str, Any]], before: str) -> None:
    assert task_before(messages) == before


def test_more_that_is_said_only_adds() -> None:
    talk = [said(f"We saw Place{n} and dear Mimi.") for n in range(MOST_ENTITIES + 40)]
    graph = learned(talk)
    assert len(entities(graph)) == MOST_ENTITIES
    assert len(entities(graph)["Mimi"].supports) == MOST_MENTIONS
    for length in (1, 10, 70, 200, len(talk)):
        less = learned(talk[:length])
        assert merged_nodes(less.nodes + graph.nodes) == merged_nodes(2 * graph.nodes), length
        assert merged_edges(less.edges + graph.edges) == merged_edges(2 * graph.edges), length


def test_what_a_tool_is_called_with_is_no_prose() -> None:
    calls = [said("go"), answered(None, tool_calls=[calling("find", '{"place":"in Oslo"}')]), result("it is Bergen")]
    assert set(entities(learned(calls))) == {"Bergen"}


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        ('{"text":"Oslo is rainy"}', ["Oslo is rainy"]),
        ('{"text":"' + "Oslo is rainy. " * 130 + '"}', ["Oslo is rainy. " * 130]),
        ('{"text":"' + "x" * 2_001 + '"}', []),
        ('{"text":" ?! "}', []),
        ('{"text":7}', []),
        ('{"note":"Oslo"}', []),
        ('["Oslo"]', []),
        ("Oslo", []),
        ("{", []),
        ('{"text":"\\ud800 Oslo"}', []),
        ('{"text":"Oslo is rainy","importance":0.2}', ["Oslo is rainy"]),
        ('{"text":"Oslo is rainy","importance":0.1}', []),
        ('{"text":"Oslo is rainy","importance":2}', []),
        ('{"text":"Oslo is rainy","importance":"much"}', []),
        ('{"text":"Oslo is rainy","importance":true}', []),
    ],
)
def test_what_the_model_has_noted_is_a_fact_that_rests_on_its_call(arguments: str, notes: list[str]) -> None:
    talk = [said("note this", user_id="ada"), answered(None, tool_calls=[calling("memory_note", arguments)])]
    graph = learned(talk)
    facts = [node for node in graph.nodes if node.kind is NodeKind.FACT]
    assert [(node.text, node.owner.user) for node in facts] == [(note, "ada") for note in notes]
    assert {anchor_of(each.anchor).type for node in facts for each in node.supports} <= {SegmentType.TOOL_CALL}
    assert len([edge for edge in graph.edges if edge.type is EdgeType.PART_OF]) == len(notes)


@pytest.mark.parametrize(("said_to_matter", "kept"), [("", 0.9), (',"importance":0.3', 0.9), (',"importance":1', 1.0)])
def test_a_note_can_be_searched_for_from_the_beginning_and_one_that_matters_more_counts_more(
    said_to_matter: str, kept: float
) -> None:
    note = calling("memory_note", f'{{"text":"Oslo is rainy"{said_to_matter}}}')
    graph = learned([said("note this", user_id="ada"), answered(None, tool_calls=[note])])
    assert [node.importance for node in graph.nodes if node.kind is NodeKind.FACT] == [kept]


@pytest.mark.parametrize("text", [*HOSTILE, "《\ud800\ud800》", "《  》", "《\x00》", "İstanbul in İstanbul"])
def test_hostile_texts_give_what_the_graph_takes(text: str) -> None:
    graph = learned([said(f"so {text}", user_id="ada", at="no time"), said(text), answered(text, at=AT)])
    for begin in range(0, len(graph.nodes), 1000):
        check_nodes(graph.nodes[begin : begin + 1000])
        check_edges(graph.edges[begin : begin + 1000])
    assert {node.owner for node in graph.nodes} <= {Owner("acme", "ada"), Owner("acme")}
