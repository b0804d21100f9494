"""Which walk through the graph extends the hits of a search: chosen by a rule, by a caller, or by a model. Pure.

The rule applies unless somebody names a strategy. A walk starts at the hits that are nodes; a walk that a caller asks
for starts also at the names in the best hits. A model's answer is stored with the task before it is used, and read
again by whichever worker begins the task anew.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, Literal

from pydantic_core import to_json

from pentad.contracts.plain_json import read_json
from pentad.contracts.recalls import RecallWalk
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.traversal import STRATEGIES
from pentad.shared.immutable import immutable
from pentad.shared.memory.mentions import names_kept
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.memory.ranking import MemoryHit

BY_RULE, NO_WALK = "auto", "none"
CHOICES = (BY_RULE, *STRATEGIES, NO_WALK)
"""Values that a caller may ask for."""
DEFAULT_DEPTH = 2
"""Edges from a start, where nobody says it."""
MOST_STARTS = 5
_START_SCORE_SHARE = 0.6
"""Share of the best score that a hit needs to be a start."""
_MOST_NAMES = 8


@immutable
class WalkChoice:
    """A walk that starts at hits."""

    strategy: str
    """Name of the strategy, one of `STRATEGIES`."""
    starts: Mapping[str, float]
    """Ids of starting nodes, with their scores."""
    names: Mapping[str, float] = field(default_factory=dict)
    """Names of further starts, each with the score of the best hit that contains it."""
    depth: int = DEFAULT_DEPTH
    by_rule: bool = True
    """Whether nobody has asked for it: then a walk that fails leaves the hits as they are."""


def walk_by_rule(hits: Sequence[MemoryHit]) -> WalkChoice | None:
    """Return the walk from the best nodes: a procedure is followed depth first, else the closest come first.

    None: none of the best hits is a node. ``hits``: best first.
    """
    best = [hit for hit in _near(hits) if hit.payload.kind == NODE_KIND][:MOST_STARTS]
    if not best:
        return None
    follows = best[0].payload.type == NodeKind.PROCEDURE
    return WalkChoice("dfs" if follows else "astar", {hit.id: hit.score for hit in best})


@immutable
class ChosenWalk:
    """A walk for a recall, and what the manifest says of it."""

    choice: WalkChoice | None
    told: RecallWalk | None


def chosen_by_rule(hits: Sequence[MemoryHit], problem: str | None = None) -> ChosenWalk:
    """Return the walk by the rule. ``problem``: why the model that was asked did not choose."""
    choice = walk_by_rule(hits)
    if choice is None and problem is None:
        return ChosenWalk(None, None)
    if choice is None:
        return ChosenWalk(None, RecallWalk(strategy="none", by="rule", problem=problem))
    return ChosenWalk(choice, recall_walk(choice, "rule", problem))


def recall_walk(choice: WalkChoice, by: Literal["rule", "memory_retriever"], problem: str | None = None) -> RecallWalk:
    """Return a walk as the manifest describes it."""
    told = {"strategy": choice.strategy, "starts": list(choice.starts), "by": by, "problem": problem}
    return RecallWalk.model_validate(told)


def requested_walk(strategy: str, depth: int, hits: Sequence[MemoryHit]) -> WalkChoice | None:
    """Return the walk that a caller asks for: ``strategy`` is one of `CHOICES`. None: no walk."""
    if strategy in (BY_RULE, NO_WALK):
        return walk_by_rule(hits) if strategy == BY_RULE else None
    near = _near(hits)
    starts = {hit.id: hit.score for hit in near if hit.payload.kind == NODE_KIND}
    names: dict[str, float] = {}
    for hit in near[:MOST_STARTS]:
        for name in names_kept(hit.payload.details).sure:
            names.setdefault(name, hit.score)
    return WalkChoice(strategy, dict(list(starts.items())[:MOST_STARTS]), _first_names(names), depth, by_rule=False)


def _near(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    return [hit for hit in hits if hit.score >= _START_SCORE_SHARE * hits[0].score]


def _first_names(names: Mapping[str, float]) -> dict[str, float]:
    return dict(list(names.items())[:_MOST_NAMES])


MOST_SHOWN = 12
_MOST_QUESTION_CHARS, _MOST_NODE_CHARS = 2_000, 500
"""Characters of the question, and of each node, that a model is shown."""


@immutable
class WalkAnswer:
    """A model's answer about a walk."""

    strategy: str
    """Name of the strategy: ``bfs``, ``dfs``, ``astar`` or ``none``."""
    starts: tuple[str, ...]
    """Ids of starting nodes, at least one, except with ``none``."""


def nodes_shown(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    """Return the nodes that a model may choose from, the best first; the first is called k1."""
    return [hit for hit in hits if hit.payload.kind == NODE_KIND][:MOST_SHOWN]


def leaves_a_choice(ruled: WalkChoice | None, hits: Sequence[MemoryHit]) -> bool:
    """Whether the rule leaves nodes aside that were found, so that another walk may be better than its own."""
    return ruled is not None and len(nodes_shown(hits)) > len(ruled.starts)


def walk_question(said: Sequence[str], shown: Sequence[MemoryHit]) -> str:
    """Return the question for the `memory_retriever` instruction."""
    known = [
        {"id": f"k{n}", "kind": hit.payload.type, "text": hit.payload.text[:_MOST_NODE_CHARS]}
        for n, hit in enumerate(shown, start=1)
    ]
    question = "\n".join(said)[:_MOST_QUESTION_CHARS].encode("utf-8", "replace").decode()
    return to_json({"question": question, "known": known}, inf_nan_mode="null").decode()


def walk_answer(value: Any, shown: Sequence[MemoryHit]) -> WalkAnswer:
    """Parse the model's answer; nodes that it was not shown are left out. Raises ``ValueError``."""
    ids = {f"k{n}": hit.id for n, hit in enumerate(shown, start=1)}
    named = value.get("start_nodes") if isinstance(value, dict) else None
    starts = [ids[name] for name in named if isinstance(name, str) and name in ids] if isinstance(named, list) else []
    return _checked_answer(value.get("strategy") if isinstance(value, dict) else None, starts)


def answer_bytes(answer: WalkAnswer, said: Sequence[str]) -> bytes:
    """Return an answer about these messages as it is stored."""
    return json.dumps({"strategy": answer.strategy, "starts": list(answer.starts), "about": _digest(said)}).encode()


def kept_answer(kept: bytes, said: Sequence[str]) -> WalkAnswer | None:
    """Return a stored answer; None for one about other messages, and for data that Pentad did not write."""
    try:
        value = read_json(kept.decode())
        return _checked_answer(value["strategy"], value["starts"]) if value["about"] == _digest(said) else None
    except (ValueError, KeyError, TypeError):
        return None


def _digest(said: Sequence[str]) -> str:
    return sha256(to_json(list(said))).hexdigest()[:16]


def chosen_by_model(answer: WalkAnswer, hits: Sequence[MemoryHit]) -> ChosenWalk | None:
    """Return the walk that the model chose; its starts get the best hit's score, since the model has read them.

    None: none of the chosen nodes is found any more.
    """
    found = {hit.id for hit in hits}
    starts = {name: hits[0].score for name in answer.starts if name in found}
    if answer.strategy == NO_WALK:
        return ChosenWalk(None, RecallWalk(strategy="none", by="memory_retriever"))
    if not starts:
        return None
    choice = WalkChoice(answer.strategy, starts)
    return ChosenWalk(choice, recall_walk(choice, "memory_retriever"))


def _checked_answer(strategy: Any, starts: Any) -> WalkAnswer:
    if not isinstance(strategy, str) or strategy not in (*STRATEGIES, NO_WALK):
        raise ValueError("strategy is to be bfs, dfs, astar or none")
    if not isinstance(starts, list) or not all(isinstance(name, str) for name in starts):
        raise ValueError("start_nodes is to be a list of names")
    if strategy != NO_WALK and not starts:
        raise ValueError("start_nodes names nothing that was shown")
    return WalkAnswer(strategy, tuple(dict.fromkeys(starts))[:MOST_STARTS])
