"""The nodes and edges that a finished task adds without a model: names, notes, facts, the task before it. Pure.

Each user of a task has separate nodes, made of that user's segments. A node that stands for a task contains its id and
no words, so that nothing is left of words that are forgotten.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pentad.contracts.ids import is_identifier, milliseconds
from pentad.contracts.records import SegmentType
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.immutable import immutable
from pentad.shared.memory.facts import SEARCHED_IMPORTANCE, notes_in, stated_facts
from pentad.shared.memory.points import CutTask
from pentad.shared.owners import Owner
from pentad.shared.recall.segment_features import WordCache
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.segments.segment import Segment

MOST_ENTITIES = 256
"""Entities of one owner in a task, the first, so that more text only adds nodes."""
MOST_NOTES = 64
"""Notes of one owner in a task, the first."""
MOST_MENTIONS = 64
"""Mentions of an entity in a task, the first."""
_PART_WEIGHT, _FOLLOWED_WEIGHT = 0.5, 0.3
"""Weights of the edges to a task, and between tasks."""
_ENTITY_IMPORTANCE, _TASK_IMPORTANCE = 0.3, 0.1
"""Importance of the nodes of entities, tasks and notes."""


@immutable
class TaskGraph:
    """The nodes and edges that a task adds."""

    nodes: list[MemoryNode]
    edges: list[MemoryEdge]


def task_before(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the task that was spoken to when this one began; '' for a session's first, or where it is not known.

    ``messages``: the transcript as records have it.
    """
    said = [message.get("task_id") for message in messages if message.get("origin") == "context"]
    return said[-1] if said and isinstance(said[-1], str) and is_identifier(said[-1]) else ""


FactRule = Callable[[Segment], bool]
"""Says of a segment whether the fact that it states is found by rule, and not by a model."""


def every_fact(segment: Segment) -> bool:
    """Find the facts of all segments by rule."""
    return True


def no_fact(segment: Segment) -> bool:
    """Leave the facts of all segments to a model."""
    return False


def task_graph(task: CutTask, before: str, learned: int = 0, facts: FactRule = every_fact) -> TaskGraph:
    """Return the nodes and edges that a task adds; none for an empty one. ``before``: see `task_before`.

    ``learned``: the graph already has what that many first segments add, so only the rest is returned. ``facts``: which
    of the facts that people state are included.
    """
    nodes: list[MemoryNode] = []
    edges: list[MemoryEdge] = []
    for part in _parts(task, learned):
        owner = Owner.of_holder(task.tenant, part.holder)
        here = _task_node(owner, task.id, part.segments[0])
        for found in (*_entities(owner, part), *_notes(owner, part), *_facts(owner, part, facts)):
            nodes.append(found)
            if found.kind is not NodeKind.FACT or found.importance >= SEARCHED_IMPORTANCE:
                edges.append(_edge(found, here, EdgeType.PART_OF, _PART_WEIGHT, found.supports))
        if part.learned:
            continue  # its node is there; where somebody has removed it, the edges to it are refused
        nodes.append(here)
        if before and before != task.id:
            # Perhaps nothing of it is known yet: it may end later than this one.
            there = _task_node(owner, before, part.segments[0])
            nodes.append(there)
            edges.append(_edge(there, here, EdgeType.FOLLOWED_BY, _FOLLOWED_WEIGHT, there.supports))
    return TaskGraph(nodes, edges)


def ruled_facts(task: CutTask, facts: FactRule) -> list[tuple[str, MemoryNode]]:
    """Return the facts that people state in a task, each with the id of its segment."""
    found = []
    for part in _parts(task, 0):
        owner = Owner.of_holder(task.tenant, part.holder)
        for segment, importance in stated_facts(part.segments, 0, part.read):
            if facts(segment):
                found.append((segment.id, _fact(owner, segment, importance)))
    return found


def without_nodes(graph: TaskGraph, ids: Collection[str]) -> TaskGraph:
    """Return a graph without these nodes and their edges."""
    if not ids:
        return graph
    edges = [edge for edge in graph.edges if edge.source not in ids and edge.target not in ids]
    return TaskGraph([node for node in graph.nodes if node.id not in ids], edges)


@immutable
class _Part:
    """The part of a task that one owner holds."""

    holder: str | None
    segments: list[Segment]
    learned: int
    """Number of its first segments that are learned already."""
    read: WordCache


def _parts(task: CutTask, learned: int) -> Iterator[_Part]:
    """Yield the parts to which something was added."""
    of_owners: dict[str | None, list[Segment]] = {}
    for segment in task.segments:
        of_owners.setdefault(segment.holder, []).append(segment)
    known = Counter(segment.holder for segment in islice(task.segments, learned))
    for holder, segments in of_owners.items():
        if known[holder] < len(segments):
            yield _Part(holder, segments, known[holder], task.read)


def _task_node(owner: Owner, task: str, first: Segment) -> MemoryNode:
    return _node(owner, NodeKind.TASK, task, _TASK_IMPORTANCE, (_support(first),))


def _entities(owner: Owner, part: _Part) -> Iterator[MemoryNode]:
    """Yield nodes of certain names, with all segments that mention them; arguments of tools are not prose."""
    prose = [n for n, each in enumerate(part.segments) if each.anchor.type is not SegmentType.TOOL_CALL]
    found = [(place, part.read.names(part.segments[place].text)) for place in prose]
    sure_at: dict[str, int] = {}
    for place, names in found:
        for name in names.sure:
            sure_at.setdefault(name, place)
    kept = list(islice((name for name in sure_at if any(map(str.isalnum, name))), MOST_ENTITIES))
    mentions: dict[str, list[int]] = {name: [] for name in kept}
    for place, names in found:
        for name in (*names.sure, *names.perhaps):
            if len(mentions.get(name, range(MOST_MENTIONS))) < MOST_MENTIONS:
                mentions[name].append(place)
    for name, places in mentions.items():
        known = part.learned if sure_at[name] < part.learned else 0  # what only began a sentence may count from now on
        if new := [_support(part.segments[place]) for place in places if place >= known]:
            text = _as_written(name, part.segments[sure_at[name]].text)
            yield _node(owner, NodeKind.ENTITY, text, _ENTITY_IMPORTANCE, tuple(new))


def _notes(owner: Owner, part: _Part) -> Iterator[MemoryNode]:
    """Yield the model's notes as facts that rest on their calls."""
    known = {segment.id for segment in islice(part.segments, part.learned)}
    for text, importance, call in islice(notes_in(part.segments), MOST_NOTES):
        if call.id not in known:
            yield _node(owner, NodeKind.FACT, text, importance, (_support(call),))


def _facts(owner: Owner, part: _Part, facts: FactRule) -> Iterator[MemoryNode]:
    """Yield the statements of the owner; one that matters too little has no edge and waits to be repeated."""
    if facts is not no_fact:
        for segment, importance in stated_facts(part.segments, part.learned, part.read):
            if facts(segment):
                yield _fact(owner, segment, importance)


def _fact(owner: Owner, segment: Segment, importance: float) -> MemoryNode:
    text = segment.text.encode("utf-8", "replace").decode()
    return _node(owner, NodeKind.FACT, text, importance, (_support(segment),))


def _as_written(name: str, text: str) -> str:
    """Return a case-folded name with the capital letters that it has in this text, as UTF-8 can encode it."""
    found = re.search(re.escape(name), unicodedata.normalize("NFKC", text), re.IGNORECASE)
    return (found[0] if found else name).encode("utf-8", "replace").decode()


def _node(owner: Owner, kind: NodeKind, text: str, importance: float, supports: tuple[Support, ...]) -> MemoryNode:
    learned_at = min(support.at for support in supports)
    return MemoryNode(node_id(owner, kind, text), owner, kind, text, importance, learned_at, supports)


def _edge(
    source: MemoryNode, target: MemoryNode, kind: EdgeType, weight: float, supports: tuple[Support, ...]
) -> MemoryEdge:
    learned_at = min(support.at for support in supports)
    return MemoryEdge(source.owner, source.id, target.id, kind, weight, learned_at, supports)


def _support(segment: Segment) -> Support:
    anchor = segment.anchor
    at = milliseconds(anchor.at) if anchor.at else 0
    return Support(anchor_text(anchor), anchor.task_id, segment.holder, at)
