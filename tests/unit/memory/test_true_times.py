"""What is known is true from when it was said until it was contradicted, and again when it was said again."""

from collections.abc import Sequence
from random import Random

import pytest

from pentad.contracts.records import Anchor, SegmentType
from pentad.shared.graph.knowledge import MemoryNode, NodeKind, Support
from pentad.shared.memory.nodes import node_point
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.memory.true_times import Span, TrueTimes, times_kept, times_of, untrue_among
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text, segment_id
from pentad.shared.vectors.limits import MOST_PAYLOAD_BYTES, check_points
from pentad.shared.vectors.points import Payload

OWNER = Owner("acme", "ada")


def anchor(task: str) -> Anchor:
    return Anchor(
        task_id=task, position=0, part=0, segment=0, step=0, type=SegmentType.USER_MESSAGE, at="", start=0, end=1,
        quote="0" * 32,
    )  # fmt: skip


def fact(*said: int, true_from: int | None = None, true_until: int | None = None) -> MemoryNode:
    """One that was said in a task at each of these moments: `task-0-<moment>`."""
    supports = tuple(Support(anchor_text(anchor(f"task-0-{at}")), f"task-0-{at}", "ada", at) for at in said)
    name = "00000000-0000-8000-a000-00000000000f"
    return MemoryNode(name, OWNER, NodeKind.FACT, "It is so", 0.5, min(said), supports, true_from, true_until)


def kept(node: MemoryNode, *contradicted: int) -> Payload:
    point = node_point(node, "s1", [1.0], times_of(node, contradicted))
    check_points([point])
    return point.payload


@pytest.mark.parametrize(
    ("node", "contradicted", "spans"),
    [
        (fact(10), [], [(10, None)]),
        (fact(10, true_until=20), [20], [(10, 20)]),
        (fact(10, 15, true_until=20), [20, 25], [(10, 20)]),
        (fact(10, 30, true_until=20), [20], [(10, 20), (30, None)]),
        (fact(10, 30, true_until=20), [20, 40], [(10, 20), (30, 40)]),
        (fact(10, 20, true_until=20), [20], [(10, 20)]),
        (fact(20, true_until=20), [20], []),
        (fact(20, true_until=10), [10], [(20, None)]),
        (fact(10, true_from=3, true_until=7), [], [(3, 7)]),
        (fact(10, true_from=3, true_until=7), [20], [(3, 7)]),
        (fact(10, true_from=15, true_until=20), [20], [(15, 20)]),
        (fact(10, true_from=25, true_until=20), [20], []),
        (fact(10, true_until=20), [], [(10, 20)]),
    ],
)
def test_statements_begin_a_time_and_contradictions_end_it(
    node: MemoryNode, contradicted: Sequence[int], spans: Sequence[Span]
) -> None:
    assert list(times_of(node, contradicted).spans) == spans
    assert times_kept(kept(node, *contradicted)) == times_of(node, contradicted), "a point keeps them"


def test_of_any_order_of_statements_the_last_one_counts() -> None:
    chance = Random(7)
    for _ in range(300):
        moments = chance.sample(range(1, 100), chance.randint(1, 12))
        said, ends = moments[::2], moments[1::2]
        times = times_of(fact(*said, true_until=min(ends, default=None)), ends)
        for moment in range(101):
            last = max((at for at in moments if at <= moment), default=None)
            assert times.at(moment) is (last in said)
        assert times.over(100) is (max(moments) in ends)


def test_a_point_of_an_earlier_version_is_true_since_it_was_learned() -> None:
    payload = Payload(OWNER, "semantic", "fact", "task-0-1", "s1", 0, 10, 0.5, "a", "It is so")
    assert times_kept(payload) == TrueTimes(((10, None),))
    assert untrue_among({"a": payload}, 11, None) == frozenset()


def test_what_is_kept_of_many_statements_is_bounded() -> None:
    node = fact(*range(1, 2_000, 2), true_until=2)
    payload = kept(node, *range(2, 2_000, 2))
    assert times_kept(payload).spans[-1] == (1_997, 1_998) or times_kept(payload).spans[-1][1] is None
    assert sum(len(str(each)) for each in payload.details.values()) < MOST_PAYLOAD_BYTES / 8


def test_a_statement_goes_with_the_facts_that_were_contradicted_and_stays_with_one_that_was_not() -> None:
    said = segment_id("acme", anchor("task-0-10"))
    segment = Payload(OWNER, SEGMENT_KIND, "user_message", "task-0-10", "s1", 0, 10, 0.5, "a", "It is so")
    old, other = kept(fact(10, true_until=20), 20), kept(fact(10))
    assert untrue_among({said: segment, "old": old}, 30, None) == {said, "old"}
    assert untrue_among({said: segment, "old": old, "other": other}, 30, None) == {"old"}
    assert untrue_among({said: segment, "old": old}, 30, 15) == frozenset()
    assert untrue_among({said: segment, "old": old}, 30, 25) == {said, "old"}
    assert untrue_among({said: segment, "old": old}, 30, 5) == {"old"}, "nobody had said it yet"
    told = kept(fact(10, true_from=1, true_until=5))
    assert untrue_among({said: segment, "told": told}, 30, None) == {"told"}, "that it is over was said with it"
