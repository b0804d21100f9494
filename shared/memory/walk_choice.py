"""Where the graph is walked from and how, to add to what a search has found. Pure.

A rule says it, unless somebody names a strategy. A walk begins at the nodes that are hits themselves; who names a
strategy walks from the names in the best hits, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from pentad.contracts.recalls import RecallWalk
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.traversal import STRATEGIES
from pentad.shared.immutable import immutable
from pentad.shared.memory.mentions import names_kept
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.memory.searching import MemoryHit

BY_RULE, NO_WALK = "auto", "none"
CHOICES = (BY_RULE, *STRATEGIES, NO_WALK)
"""What may be asked for."""
DEPTH = 2
"""Edges from a start, where nobody says it."""
MOST_STARTS = 5
_NEAR = 0.6
"""A hit with less than this share of the best one's score is no start."""
_MOST_NAMES = 8


@immutable
class WalkChoice:
    """A walk from hits."""

    strategy: str
    """One of `STRATEGIES`."""
    starts: Mapping[str, float]
    """Nodes, each with its score."""
    names: Mapping[str, float] = field(default_factory=dict)
    """Names of further starts, each with the score of the best hit that says it."""
    depth: int = DEPTH
    by_rule: bool = True
    """Nobody has asked for it: where it cannot be made, what was found stays as it is."""


def walk_by_rule(hits: Sequence[MemoryHit]) -> WalkChoice | None:
    """From what is known and among the best: a procedure is followed step by step, else the closest come first.

    None: none of the best is a node. ``hits``: the best first.
    """
    best = [hit for hit in _near(hits) if hit.payload.kind == NODE_KIND][:MOST_STARTS]
    if not best:
        return None
    follows = best[0].payload.type == NodeKind.PROCEDURE
    return WalkChoice("dfs" if follows else "astar", {hit.id: hit.score for hit in best})


@immutable
class ChosenWalk:
    """A walk for a recall, and what is written down of it."""

    choice: WalkChoice | None
    told: RecallWalk | None


def chosen_by_rule(hits: Sequence[MemoryHit], problem: str | None = None) -> ChosenWalk:
    """What the rule says. ``problem``: why nobody else has said it who was asked."""
    choice = walk_by_rule(hits)
    if choice is None and problem is None:
        return ChosenWalk(None, None)
    if choice is None:
        return ChosenWalk(None, RecallWalk(strategy="none", by="rule", problem=problem))
    return ChosenWalk(choice, walk_told(choice, "rule", problem))


def walk_told(choice: WalkChoice, by: Literal["rule", "memory_retriever"], problem: str | None = None) -> RecallWalk:
    """As it is written down."""
    told = {"strategy": choice.strategy, "starts": list(choice.starts), "by": by, "problem": problem}
    return RecallWalk.model_validate(told)


def walk_asked_for(strategy: str, depth: int, hits: Sequence[MemoryHit]) -> WalkChoice | None:
    """As somebody asks: ``strategy`` is one of `CHOICES`. None: no walk is made."""
    if strategy in (BY_RULE, NO_WALK):
        return walk_by_rule(hits) if strategy == BY_RULE else None
    near = _near(hits)
    starts = {hit.id: hit.score for hit in near if hit.payload.kind == NODE_KIND}
    names: dict[str, float] = {}
    for hit in near[:MOST_STARTS]:
        for name in names_kept(hit.payload.details).sure:
            names.setdefault(name, hit.score)
    return WalkChoice(strategy, dict(list(starts.items())[:MOST_STARTS]), _first(names), depth, by_rule=False)


def _near(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    return [hit for hit in hits if hit.score >= _NEAR * hits[0].score]


def _first(names: Mapping[str, float]) -> dict[str, float]:
    return dict(list(names.items())[:_MOST_NAMES])
