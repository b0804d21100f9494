"""Of an answer about several tasks each has its own part, which is like an answer about it alone."""

import json
from typing import Any

import pytest

from pentad.shared.graph.graph_limits import check_edges, check_nodes
from pentad.shared.memory.extraction import (
    MOST_QUESTION_CHARS,
    MOST_SEGMENTS,
    Extracted,
    NearNode,
    extracted,
    facts_by_rule,
    segments_shown,
)
from pentad.shared.memory.extraction_groups import (
    LONG_WEIGHT,
    MOST_TASKS,
    MOST_WEIGHT,
    EarlierNode,
    answer_part,
    extraction_question,
    near_to_all,
    unsupported,
    weight_of,
)
from pentad.shared.memory.points import cut_task
from pentad.shared.memory.task_graph import every_fact, ruled_facts
from pentad.shared.segments.segment import Segment
from tests.unit.segments.transcripts import HOSTILE, answered, said


def task(number: int, *texts: str) -> list[Segment]:
    talk = [said(text, user_id="ada") for text in texts]
    return segments_shown(cut_task("acme", f"task-0-{number}", "s1", [*talk, answered("I see.")]))


FERRY = task(1, "The ferry leaves at nine.", "It is red.")
CAT = task(2, "My cat is called Mimi.")
TASKS = [FERRY, CAT]
COUNT = len(FERRY) + len(CAT)
NEAR = [NearNode("old", "ada", "fact", "The ferry leaves at eight.")]


def node(name: str, text: str, *segments: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "kind": "fact", "text": text, "importance": 0.8, "segments": list(segments), **fields}


def edge(source: str, target: str, *segments: Any) -> dict[str, Any]:
    return {"from": source, "to": target, "type": "related_to", "weight": 0.5, "segments": list(segments)}


def parts(value: Any) -> list[tuple[Extracted, list[str]]]:
    """What each task takes of an answer, and after which tasks it is written."""
    found, first, earlier = [], 0, dict[str, EarlierNode]()
    for segments in TASKS:
        part = answer_part(value, first, len(segments), NEAR, earlier)
        json.dumps(part.value, allow_nan=True)
        taken = extracted("acme", part.value, segments, part.near, {})
        for name, own in part.names.items():
            if own in taken.nodes:
                known = taken.nodes[own]
                shown = NearNode(known.id, known.owner.holder, known.kind.value)
                earlier.setdefault(name, EarlierNode(shown, segments[0].anchor.task_id))
        found.append((taken, part.after))
        first += len(segments)
    return found


def texts(found: Extracted) -> set[str]:
    return {each.text for each in found.nodes.values()}


def tasks_in(found: Extracted) -> set[str]:
    supports = [each.supports for each in found.nodes.values()] + [each.supports for each in found.edges]
    return {support.task for each in supports for support in each}


def test_segments_are_numbered_on_and_each_says_its_task() -> None:
    shown = json.loads(extraction_question(TASKS, NEAR))
    assert [each["n"] for each in shown["segments"]] == [*range(1, COUNT + 1)]
    assert [each["task"] for each in shown["segments"]] == [1] * len(FERRY) + [2] * len(CAT)
    assert shown["known"] == [{"id": "k1", "kind": "fact", "text": "The ferry leaves at eight."}]
    assert "task" not in json.loads(extraction_question([FERRY], []))["segments"][0]


def test_each_task_has_the_nodes_that_name_its_segments_and_supports_of_its_own() -> None:
    both = node("c", "Both", 1, len(FERRY) + 1)
    value = {"nodes": [node("a", "Ferry", 1), node("b", "Cat", len(FERRY) + 1), both], "edges": [edge("a", "k1", 2)]}
    (ferry, _), (cat, after) = parts(value)
    assert (texts(ferry), texts(cat), after) == ({"Ferry", "Both"}, {"Cat", "Both"}, [])
    assert (tasks_in(ferry), tasks_in(cat)) == ({"task-0-1"}, {"task-0-2"})
    assert [each.target for each in ferry.edges] == ["old"]


def test_an_edge_to_a_node_of_an_earlier_task_is_the_later_ones_which_is_written_behind_it() -> None:
    nodes = [node("a", "Ferry", 1), node("b", "Cat", len(FERRY) + 1)]
    (ferry, _), (cat, after) = parts({"nodes": nodes, "edges": [edge("a", "b", 1), edge("b", "a", len(FERRY) + 1)]})
    assert ferry.edges == [], "what comes later is not there yet when the first is written"
    [found] = cat.edges
    assert {found.source, found.target} == {each.id for each in (*ferry.nodes.values(), *cat.nodes.values())}
    assert after == ["task-0-1"]


def test_a_part_of_one_task_alone_is_what_the_whole_answer_says() -> None:
    value = {"nodes": [node("a", "Ferry", 1, 2), node("b", "Red", 2)], "edges": [edge("a", "b", 2), edge("b", "k1", 1)]}
    part = answer_part(value, 0, len(FERRY), NEAR, {})
    one, whole = (extracted("acme", each, FERRY, NEAR, {}) for each in (part.value, value))
    assert [*one.nodes.values()] == [*whole.nodes.values()]
    assert (one.edges, one.refused) == (whole.edges, whole.refused)


@pytest.mark.parametrize("segments", [(), (0,), (99,), (-1,), ("1",), (True,), (None,), (10**30,), ({},)])
def test_what_names_no_segment_is_no_tasks_and_counted(segments: tuple[Any, ...]) -> None:
    value = {"nodes": [node("a", "Made up", *segments)], "edges": [edge("a", "k1", *segments)]}
    assert [texts(found) for found, _ in parts(value)] == [set(), set()]
    assert unsupported(value, COUNT) == 2


def test_no_name_of_the_answer_is_taken_for_another() -> None:
    """A node that calls itself like a known thing, or like one of ours, is itself; so are two of one name."""
    cat = len(FERRY) + 1
    nodes = [node("k1", "Thief", 1), node("n1", "Own", cat), node("k2", "Other", cat), node("x", "One", cat)]
    edges = [edge("k1", "n1", cat), edge("k2", "n1", cat), edge("n2", "x", cat), edge("", "x", cat)]
    (first, _), (second, _) = parts({"nodes": nodes, "edges": edges})
    by_id = {each.id: each.text for found in (first, second) for each in found.nodes.values()} | {"old": "old"}
    joined = [{by_id[each.source], by_id[each.target]} for each in second.edges]
    assert joined == [{"old", "Own"}, {"Other", "Own"}]
    assert second.refused == 2


@pytest.mark.parametrize(
    "value", [None, 7, "x", [], {}, {"nodes": 7, "edges": None}, {"nodes": [None, [], {}], "edges": [{}, 7]}]
)
def test_what_is_no_answer_adds_nothing_to_any_task(value: Any) -> None:
    assert [(found.nodes, found.edges) for found, _ in parts(value)] == [({}, [])] * 2


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_parts_give_what_the_graph_takes(text: str) -> None:
    wild = {"importance": float("nan"), "true_from": text[:50], "kind": "fact"}
    nodes = [node(text[:9], text, 1, COUNT, **wild), {"id": {"a": text[:50]}, "text": [text[:50]], "segments": [1]}]
    for found, _ in parts({"nodes": nodes, "edges": [edge(text[:9], "k1", 1, COUNT)]}):
        check_nodes(list(found.nodes.values()))
        check_edges(found.edges)


def test_what_is_asked_about_together_is_bounded_as_one_task_is() -> None:
    tiny, long = task(1, "x"), task(2, *(["word " * 100] * 40))
    assert weight_of(tiny) * MOST_TASKS <= MOST_WEIGHT < weight_of(tiny) * (MOST_TASKS + 1)
    assert weight_of(long) > LONG_WEIGHT
    for texts_of in (["x"] * 20, ["word " * 30] * 5, ["word " * 150] * 3):
        each = task(1, *texts_of)
        together = MOST_WEIGHT // weight_of(each)
        assert together * len(each) <= MOST_SEGMENTS
        assert together * sum(len(segment.text) for segment in each) <= MOST_QUESTION_CHARS


def test_the_nearest_to_each_task_come_first_and_no_more_than_twelve() -> None:
    near = [[NearNode(f"{name}{n}", None, "fact", "t") for n in range(9)] for name in "ab"]
    shown = near_to_all([*near, [near[0][0], NearNode("c", None, "fact", "t")]])
    assert [each.id for each in shown[:4]] == ["a0", "b0", "a1", "b1"]
    assert len(shown) == 12
    assert "c" in [each.id for each in shown]


def test_facts_are_found_by_rule_unless_the_model_was_shown_their_segments() -> None:
    segments = task(3, "My cat is called Mimi.", "My boss is called Olav Hagen.")
    whole = cut_task("acme", "task-0-3", "s1", [said("My cat is called Mimi."), said("My boss is called Olav Hagen.")])
    first, second = (segment.id for segment in segments[:2])
    assert [name for name, _ in ruled_facts(whole, every_fact)] == [first, second]
    answer: dict[str, Any] = {"value": {}, "segments": [first]}
    assert [name for name, _ in ruled_facts(whole, facts_by_rule(answer))] == [second], "it was not shown"
    answer |= {"segments": [first, second], "ruled": {second: "node"}}
    assert [name for name, _ in ruled_facts(whole, facts_by_rule(answer))] == [second], "it was written before"
    for none in (None, {"problem": "unusable"}):
        assert len(ruled_facts(whole, facts_by_rule(none))) == 2


def test_a_fact_that_the_rule_had_found_stands_for_what_the_model_says_there() -> None:
    value = {
        "nodes": [node("a", "Mimi is a cat.", 1), node("b", "Cats", 1, kind="concept")],
        "edges": [edge("a", "b", 1)],
    }
    found = extracted("acme", value, CAT, [], {}, {CAT[0].id: "by-rule"})
    assert texts(found) == {"Cats"}
    assert [each.source for each in found.edges] == ["by-rule"]
