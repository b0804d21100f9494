"""The outcome of recalling memories for a new task."""

from typing import Literal

from pydantic import Field

from pentad.contracts.envelope import Contract

RecallOutcome = Literal["recalled", "nothing", "no_memory", "off", "away", "late", "busy", "failed"]
"""Outcome of recalling. ``nothing``: no memory fits. ``no_memory``: the tenant has none. ``off``: by a setting or the
instruction. ``away``: the store or the embedding model is unavailable. ``late``: no answer in time. ``busy``: too many
are recalling. ``failed``: it was refused, or failed by a mistake of Pentad's."""


class RecallWalk(Contract):
    """The walk through the graph that began at the search hits."""

    strategy: Literal["bfs", "dfs", "astar", "none"]
    """Search strategy of the walk; ``none``: there was no walk."""
    starts: list[str] = Field(default_factory=list)
    """Ids of the nodes at which the walk began, the best first."""
    by: Literal["rule", "memory_retriever"]
    """Who chose the strategy: a fixed rule, or the instruction ``memory_retriever``."""
    problem: str | None = None
    """Reason why the rule chose although the instruction was asked."""
