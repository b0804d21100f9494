"""Extraction about several tasks at once: the question, and the part of the answer that is each task's. Pure.

The segments of all tasks are numbered on. A part has the numbers of its own task alone, so it is stored, written and
forgotten like the answer to a question about that task.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from math import ceil
from typing import Any

from pydantic_core import to_json

from pentad.shared.immutable import immutable
from pentad.shared.memory.extraction import (
    MOST_EDGES,
    MOST_NODES,
    MOST_QUESTION_CHARS,
    MOST_SEGMENTS,
    NearNode,
    items_of,
    segments_named,
)
from pentad.shared.segments.segment import Segment

MOST_TASKS = 16
"""Tasks of one question."""
MOST_WEIGHT = 2_400
"""Weight of the tasks of one question: it bounds their number, their segments and their characters."""
LONG_WEIGHT = MOST_WEIGHT // 2
"""Weight from which a task is long: it is asked about alone."""
_MOST_NEAR = 12
"""Known things that a question about several tasks shows."""
_NODE_FIELDS = ("kind", "text", "importance", "true_from", "true_until")
_EDGE_FIELDS = ("type", "weight")


def weight_of(segments: Sequence[Segment]) -> int:
    """Return what a task weighs in a question: the largest of the shares that it takes of the bounds, rounded up."""
    chars = sum(len(segment.text) for segment in segments)
    shares = (MOST_WEIGHT / MOST_TASKS, len(segments) * MOST_WEIGHT / MOST_SEGMENTS)
    return ceil(max(*shares, chars * MOST_WEIGHT / MOST_QUESTION_CHARS))


def extraction_question(tasks: Sequence[Sequence[Segment]], near: Sequence[NearNode]) -> str:
    """Return the question for the `memory_archiver` instruction. Items are numbered, because models misspell ids."""
    several = len(tasks) > 1
    said: list[dict[str, Any]] = []
    for task, segments in enumerate(tasks, start=1):
        for each in segments:
            anchor = each.anchor
            line = {"n": len(said) + 1, "type": anchor.type.value, "speaker": each.speaker, "at": anchor.at}
            said.append({"task": task, **line, "text": each.text} if several else {**line, "text": each.text})
    known = [{"id": f"k{n}", "kind": each.kind, "text": each.text} for n, each in enumerate(near, start=1)]
    return to_json({"segments": said, "known": known}, inf_nan_mode="null").decode()


def near_to_all(near: Sequence[Sequence[NearNode]]) -> list[NearNode]:
    """Return the nodes that a question shows, from those near to each of its tasks: the nearest of each come first."""
    ranked = (node for nodes in zip_longest(*near) for node in nodes if node is not None)
    return list({node.id: node for node in ranked}.values())[:_MOST_NEAR]


@immutable
class EarlierNode:
    """A node of an earlier task of the same question."""

    node: NearNode
    task: str


@immutable
class AnswerPart:
    """The part of an answer that is one task's."""

    value: dict[str, Any]
    near: list[NearNode]
    """The nodes that were shown, and those of earlier tasks that the part names."""
    after: list[str]
    """The tasks of those: what they add is written first."""
    names: Mapping[str, str]
    """The part's names of nodes, by the names in the whole answer."""


def answer_part(
    value: Any, first: int, count: int, near: Sequence[NearNode], earlier: Mapping[str, EarlierNode]
) -> AnswerPart:
    """Return what an answer says of ``count`` segments behind the first ``first``.

    A node is the task's where it names a segment of it, an edge likewise. ``earlier``: nodes of earlier tasks, by the
    names in the whole answer.
    """
    names: dict[str, str] = {}
    nodes: list[dict[str, Any]] = []
    for item in items_of(value, "nodes", MOST_NODES):
        if numbers := segments_named(item, first, count):
            name = names[str(item.get("id"))] = f"n{len(nodes) + 1}"
            nodes.append({"id": name, **_fields(item, _NODE_FIELDS), "segments": [n - first for n in numbers]})
    shown, after = [*near], dict[str, None]()
    known = {f"k{n}" for n in range(1, len(near) + 1)}
    of_earlier: dict[str, str] = {}

    def end(name: str) -> str:
        if name in names:
            return names[name]
        if name not in known and name in earlier and name not in of_earlier:
            shown.append(earlier[name].node)
            after[earlier[name].task] = None
            of_earlier[name] = f"k{len(shown)}"
        return name if name in known else of_earlier.get(name, "")

    edges: list[dict[str, Any]] = []
    for item in items_of(value, "edges", MOST_EDGES):
        if numbers := segments_named(item, first, count):
            ends = {side: end(str(item.get(side))) for side in ("from", "to")}
            edges.append({**ends, **_fields(item, _EDGE_FIELDS), "segments": [n - first for n in numbers]})
    return AnswerPart({"nodes": nodes, "edges": edges}, shown, list(after), names)


def unsupported(value: Any, count: int) -> int:
    """Return how many items of an answer name none of its ``count`` segments: they are no task's."""
    items: Iterator[Mapping[str, Any]] = (
        item for name, most in (("nodes", MOST_NODES), ("edges", MOST_EDGES)) for item in items_of(value, name, most)
    )
    return sum(not segments_named(item, 0, count) for item in items)


def _fields(item: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: item[name] for name in names if name in item}
