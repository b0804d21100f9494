"""What came of recalling for a new task."""

from typing import Literal

from pydantic import Field

from pentad.contracts.envelope import Contract

RecallOutcome = Literal["recalled", "nothing", "no_memory", "off", "away", "late", "busy", "failed"]


class RecallWalk(Contract):
    """How the graph was walked from what the search had found."""

    strategy: Literal["bfs", "dfs", "astar", "none"]
    """``none``: not at all."""
    starts: list[str] = Field(default_factory=list)
    """Nodes, the best first."""
    by: Literal["rule", "memory_retriever"]
    """Who has chosen it."""
    problem: str | None = None
    """Why it was the rule, where the instruction was asked."""
