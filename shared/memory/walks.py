"""Walks through the graph from the hits of a search, and the tasks that hits and nodes come from."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryNode, NodeKind, WalkedEdge
from pentad.shared.graph.traversal import STRATEGIES, Reached, Walk, path_to
from pentad.shared.immutable import immutable
from pentad.shared.memory.nodes import metadata_detail, true_times
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.statements import is_statement
from pentad.shared.memory.true_times import TrueTimes, times_told
from pentad.shared.memory.walk_choice import WalkChoice
from pentad.shared.owners import Owner
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.vectors.points import Payload

_say = ThrottledLog(logging.getLogger(__name__))

MOST_NODES = 40
"""Nodes of a walk, its starts included."""
MOST_TASKS = 20
_NEIGHBOUR_SHARE = 0.9
"""Share of a start's score that its neighbour has at most."""
_FOLLOWED_TYPES = (EdgeType.RELATED_TO, EdgeType.FOLLOWED_BY, EdgeType.DERIVED_FROM, EdgeType.PART_OF)
"""Types of edges to follow; a contradiction leads away from the subject."""
BY_RULE_S, ASKED_S = 1.0, 5.0
"""Seconds that a walk by rule, and one that was asked for, may take."""


@immutable
class TaskBeside:
    """A task that hits are from, or that the walk has reached."""

    task: str
    at: int
    """Time of its newest statement, in ms since the epoch; 0 where that is not known."""
    hits: tuple[str, ...]
    """Ids of the hits that are from it, the best first."""


@immutable
class WalkedMemories:
    """Hits, the best first, and tasks, those of the best hits first."""

    hits: Sequence[MemoryHit]
    tasks: Sequence[TaskBeside]


class HitWalks:
    """Walks through one graph. ``by_rule_s`` bounds walks that nobody asked for, ``asked_s`` others."""

    def __init__(self, graph: Graph, by_rule_s: float = BY_RULE_S, asked_s: float = ASKED_S) -> None:
        self._graph, self._by_rule_s, self._asked_s = graph, by_rule_s, asked_s

    async def walked(
        self, asked: MemoryQuestion, hits: Sequence[MemoryHit], choice: WalkChoice | None
    ) -> WalkedMemories:
        """Return the best of the hits and of what a walk from them reaches, as many as are asked for.

        Raises ``MemoryOutageError`` for a walk that somebody has asked for and that fails.
        """
        if choice is None:
            return WalkedMemories(hits, _tasks_beside(hits, ()))
        limit_s = self._by_rule_s if choice.by_rule else self._asked_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._from(asked, hits, choice)
        except TimeoutError:
            problem = MemoryOutageError(f"the walk from what was found took longer than {limit_s:g} s: ask for less")
        except (MemoryOutageError, MemoryRefusedError) as error:
            problem = MemoryOutageError(str(error))
        if not choice.by_rule:
            raise problem
        _say.warning("walk", "nothing is added from the graph to what was found: %s", problem)
        return WalkedMemories(hits, _tasks_beside(hits, ()))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._graph.aclose()

    async def _from(self, asked: MemoryQuestion, hits: Sequence[MemoryHit], choice: WalkChoice) -> WalkedMemories:
        owner = asked.owner
        starts = await self._starts(owner, choice)
        walk = Walk(owner, choice.depth, MOST_NODES, _FOLLOWED_TYPES, asked.as_of)
        reached = await STRATEGIES[choice.strategy](self._graph, list(starts), walk)
        nodes = {node.id: node for node in await self._graph.nodes(owner, [each.id for each in reached])}
        times = await true_times(self._graph, list(nodes.values()))
        scores, ways = scores_of(reached, starts), {each.id: path_to(each) for each in reached}
        counts = [node for node in nodes.values() if _counts(times[node.id], asked)]
        known = {hit.id for hit in hits}
        more = [
            _hit(node, scores[node.id], ways[node.id], times[node.id], owner)
            for node in counts
            if node.id not in known and _is_shown(node, owner, by_rule=choice.by_rule)
        ]
        both = [_with_better_score(hit, scores.get(hit.id, 0.0), ways.get(hit.id, ())) for hit in hits]
        best = sorted([*both, *more], key=lambda hit: (-hit.score, hit.id))[: asked.limit]
        return WalkedMemories(best, _tasks_beside(best, [node for node in counts if node.kind is NodeKind.TASK]))

    async def _starts(self, owner: Owner, choice: WalkChoice) -> dict[str, float]:
        """Return the starting nodes with their scores, the best first."""
        starts = dict(choice.starts)
        named = await self._graph.named(owner, list(choice.names)) if choice.names else []
        for node in named:
            starts.setdefault(node.id, choice.names.get(node.text.casefold(), min(choice.names.values())))
        return dict(sorted(starts.items(), key=lambda start: (-start[1], start[0])))


def scores_of(reached: Iterable[Reached], starts: Mapping[str, float]) -> dict[str, float]:
    """Return the score of each node that a walk reached: the costlier the path from its start, the less. Pure."""
    origins: dict[str, float] = {}
    scores: dict[str, float] = {}
    for each in reached:
        origins[each.id] = starts[each.id] if each.came_from is None else origins[each.came_from]
        scores[each.id] = _NEIGHBOUR_SHARE * origins[each.id] / (1 + each.cost)
    return scores


def _with_better_score(hit: MemoryHit, score: float, way: tuple[WalkedEdge, ...]) -> MemoryHit:
    """Return a hit that the walk reached as well: the better score counts."""
    return hit if score <= hit.score else replace(hit, score=score, parts={**hit.parts, "walk": score}, path=way)


def _counts(times: TrueTimes, asked: MemoryQuestion) -> bool:
    return not times.over(asked.now_ms) if asked.as_of is None else times.at(asked.as_of)


def _is_shown(node: MemoryNode, owner: Owner, *, by_rule: bool) -> bool:
    """Whether a node is shown: never that of a task; that of a name only when somebody asked for a walk."""
    silent = (NodeKind.TASK, NodeKind.ENTITY) if by_rule else (NodeKind.TASK,)
    return node.kind not in silent and any(owner.sees(support.user) for support in node.supports)


def _hit(node: MemoryNode, score: float, way: tuple[WalkedEdge, ...], times: TrueTimes, owner: Owner) -> MemoryHit:
    """Return a node as a hit; its anchor is that of the newest statement that the owner sees."""
    newest = max((each for each in node.supports if owner.sees(each.user)), key=lambda each: (each.at, each.anchor))
    payload = Payload(
        owner=node.owner,
        kind=NODE_KIND,
        type=node.kind.value,
        task=newest.task,
        session="",
        position=0,
        at=node.learned_at,
        importance=node.importance,
        anchor=newest.anchor,
        text=node.text,
        details=times_told(node, times) | metadata_detail(node),
    )
    return MemoryHit(node.id, payload, score, {"walk": score}, path=way)


def _tasks_beside(hits: Iterable[MemoryHit], reached: Iterable[MemoryNode]) -> list[TaskBeside]:
    """Return the tasks of hits and nodes; statements that people made outside of any task have none."""
    ids: dict[str, list[str]] = {}
    newest: dict[str, int] = {}
    for hit in hits:
        ids.setdefault(hit.payload.task, []).append(hit.id)
        newest[hit.payload.task] = max(hit.payload.at, newest.get(hit.payload.task, 0))
    for node in reached:
        ids.setdefault(node.text, [])
        newest[node.text] = max(newest.get(node.text, 0), *(support.at for support in node.supports))
    found = [TaskBeside(task, newest[task], tuple(named)) for task, named in ids.items() if not is_statement(task)]
    return found[:MOST_TASKS]
