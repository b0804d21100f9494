"""What a model is asked about a recall: how the graph is to be walked from what the search has found. Pure.

Its answer is kept with the task before it is used, and read again by whoever begins the task anew.
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.plain_json import read_json
from pentad.contracts.recalls import RecallWalk
from pentad.shared.graph.traversal import STRATEGIES
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.memory.searching import MemoryHit
from pentad.shared.memory.walk_choice import MOST_STARTS, NO_WALK, ChosenWalk, WalkChoice, walk_told

MOST_SHOWN = 12
_MOST_CHARS, _MOST_TEXT = 2_000, 500
"""Of what the person asks, and of each thing that is known."""


@immutable
class WalkAnswer:
    """How a model wants the graph to be walked."""

    strategy: str
    """``bfs``, ``dfs``, ``astar`` or ``none``."""
    starts: tuple[str, ...]
    """Ids of nodes; at least one, but with ``none``."""


def nodes_shown(hits: Sequence[MemoryHit]) -> list[MemoryHit]:
    """The nodes that a model may choose from, the best first; the first is called k1."""
    return [hit for hit in hits if hit.payload.kind == NODE_KIND][:MOST_SHOWN]


def walk_question(said: Sequence[str], shown: Sequence[MemoryHit]) -> str:
    """As the `memory_retriever` instruction gets it."""
    known = [
        {"id": f"k{n}", "kind": hit.payload.type, "text": hit.payload.text[:_MOST_TEXT]}
        for n, hit in enumerate(shown, start=1)
    ]
    question = "\n".join(said)[:_MOST_CHARS].encode("utf-8", "replace").decode()
    return to_json({"question": question, "known": known}, inf_nan_mode="null").decode()


def walk_answer(value: Any, shown: Sequence[MemoryHit]) -> WalkAnswer:
    """What the model says; things that it was not shown are left out. Raises ``ValueError``."""
    ids = {f"k{n}": hit.id for n, hit in enumerate(shown, start=1)}
    named = value.get("start_nodes") if isinstance(value, dict) else None
    starts = [ids[name] for name in named if isinstance(name, str) and name in ids] if isinstance(named, list) else []
    return _checked(value.get("strategy") if isinstance(value, dict) else None, starts)


def answer_bytes(answer: WalkAnswer) -> bytes:
    """As it is kept."""
    return json.dumps({"strategy": answer.strategy, "starts": list(answer.starts)}).encode()


def kept_answer(kept: bytes) -> WalkAnswer | None:
    """What was kept; None for what is nothing of ours."""
    try:
        value = read_json(kept.decode())
        return _checked(value["strategy"], value["starts"])
    except (ValueError, KeyError, TypeError):
        return None


def chosen_by_model(answer: WalkAnswer, hits: Sequence[MemoryHit]) -> ChosenWalk | None:
    """The walk that it wants; what it begins at counts as much as the best hit, for it has read them.

    None: nothing of that is found any more.
    """
    found = {hit.id for hit in hits}
    starts = {name: hits[0].score for name in answer.starts if name in found}
    if answer.strategy == NO_WALK:
        return ChosenWalk(None, RecallWalk(strategy="none", by="memory_retriever"))
    if not starts:
        return None
    choice = WalkChoice(answer.strategy, starts)
    return ChosenWalk(choice, walk_told(choice, "memory_retriever"))


def _checked(strategy: Any, starts: Any) -> WalkAnswer:
    if not isinstance(strategy, str) or strategy not in (*STRATEGIES, NO_WALK):
        raise ValueError("strategy is to be bfs, dfs, astar or none")
    if not isinstance(starts, list) or not all(isinstance(name, str) for name in starts):
        raise ValueError("start_nodes is to be a list of names")
    if strategy != NO_WALK and not starts:
        raise ValueError("start_nodes names nothing that was shown")
    return WalkAnswer(strategy, tuple(dict.fromkeys(starts))[:MOST_STARTS])
