"""What enters semantic memory of what people say: what they want known at once, all else when they say it again."""

from dataclasses import replace

import pytest

from pentad.shared.graph.knowledge import EdgeType, MemoryNode, NodeKind
from pentad.shared.memory.facts import MOST_FACTS, MOST_STATEMENT_CHARS, SEARCHED_IMPORTANCE, raised_by_repetition
from pentad.shared.memory.points import cut_task
from pentad.shared.memory.task_graph import no_fact, task_graph
from tests.unit.segments.transcripts import HOSTILE, answered, said


def facts(*messages: dict[str, object], task: str = "task-0-1", learned: int = 0) -> list[MemoryNode]:
    graph = task_graph(cut_task("acme", task, "s1", messages), "", learned)
    return [node for node in graph.nodes if node.kind is NodeKind.FACT]


@pytest.mark.parametrize(
    ("text", "importance"),
    [
        ("my cat is called Ada", 0.7),
        ("The ferry to Bergen leaves at 9", 0.6),
        ("remember that the ferry is blue", 0.9),
        ("the ferry is painted blue", None),
        ("what is my cat called, and where is Ada?", None),
        ("my cat Ada " + "sleeps " * (MOST_STATEMENT_CHARS // 7), None),
        ("thanks", None),
    ],
)
def test_a_short_statement_that_matters_is_a_fact(text: str, importance: float | None) -> None:
    assert [(node.text, node.importance) for node in facts(said(text))] == (
        [] if importance is None else [(text, importance)]
    )


def test_what_a_model_answers_is_no_fact_and_each_fact_is_its_speakers() -> None:
    found = facts(said("my cat is called Ada", user_id="ada"), answered("my cat is called Ada"),
                  said("my dog is called Bo", user_id="bob"))  # fmt: skip
    assert {(node.owner.user, node.text) for node in found} == {
        ("ada", "my cat is called Ada"), ("bob", "my dog is called Bo")
    }  # fmt: skip
    assert all(support.user == node.owner.user for node in found for support in node.supports)


def test_only_what_enters_has_an_edge() -> None:
    messages = [said("my cat is called Ada"), said("remember that the ferry is blue")]
    graph = task_graph(cut_task("acme", "task-0-1", "s1", messages), "")
    entered = [node.id for node in graph.nodes if node.kind is NodeKind.FACT and node.importance >= SEARCHED_IMPORTANCE]
    waiting = {node.id for node in graph.nodes if node.kind is NodeKind.FACT} - set(entered)
    sources = [edge.source for edge in graph.edges if edge.type is EdgeType.PART_OF]
    assert (len(entered), len(waiting), set(entered) <= set(sources), waiting & set(sources)) == (1, 1, True, set())


def test_where_a_model_is_asked_nothing_is_stated_by_rule() -> None:
    graph = task_graph(cut_task("acme", "task-0-1", "s1", [said("my cat is called Ada")]), "", facts=no_fact)
    assert not any(node.kind is NodeKind.FACT for node in graph.nodes)


def test_each_further_task_adds_and_a_repetition_within_one_does_not() -> None:
    [once] = facts(said("my cat is called Ada"))
    there = once
    for number, expected in ((2, 0.8), (3, 0.9), (4, 1.0), (5, 1.0)):
        [more] = facts(said("My cat is called Ada"), task=f"task-0-{number}")
        there = replace(there, supports=(*there.supports, *more.supports, replace(more.supports[0], at=number)))
        [there] = raised_by_repetition([more], [there]) or [there]
        assert there.importance == expected
        assert raised_by_repetition([more], [there]) == [], "a redelivery adds nothing"
    assert raised_by_repetition([once], [once]) == []


def test_facts_of_a_task_are_bounded_and_told_once() -> None:
    messages = [said(f"my boat {n} is called Ada{n}") for n in range(MOST_FACTS + 20)]
    assert len(facts(*messages)) == MOST_FACTS
    assert [node.text for node in facts(*messages[:5], learned=3)] == [each["content"] for each in messages[3:5]]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_statements_are_kept_as_they_are_or_not_at_all(text: str) -> None:
    for node in facts(said(f"remember my {text}")):
        assert len(node.text) <= MOST_STATEMENT_CHARS
        node.text.encode()
