"""The path of a task through its graph, as inspection shows it."""

from typing import Any, Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskStatus

VisitOutcome = Literal["ok", "failed", "running"]


class StartedTask(Contract):
    """A task that a node has started: a branch, an item of a list, another graph, or an agent that a model has
    called.
    """

    task_id: str
    index: int = 0
    """Number of the branch or item, from 0 on."""
    name: str
    """Key of the branch or of the item's node, name of the graph, or name of the tool that stands for the agent."""
    outcome: VisitOutcome | Literal["cancelled"]
    """Outcome for the node. ``cancelled``: the node went on without it."""
    error: str | None = None
    started_at: str
    duration_ms: int | None = None
    """Milliseconds until its end was known; absent while it runs."""


class NodeVisit(Contract):
    """A visit of a run to a node."""

    node: str
    kind: str | None = None
    """Kind of the node; absent if the graph is not kept any more."""
    started_at: str
    """Time at which the run came to the node: RFC 3339."""
    duration_ms: int | None = None
    """Milliseconds until the run left the node; absent while it is there."""
    outcome: VisitOutcome
    attempts: int = 1
    error: str | None = None
    """Reason of the last failed attempt; absent if none has failed."""
    next: str | None = None
    """Key of the node that followed; absent at the end of a run, and while the run is here."""
    judged: dict[str, bool] = Field(default_factory=dict)
    """Outcomes of the conditions that a model has judged or a tool has checked, by the conditions."""
    tasks: list[StartedTask] = Field(default_factory=list)
    """Tasks that the node has started, in the order of their branches or items."""


class TaskPath(Contract):
    """The path of the task's newest run: its nodes in order, and how it has ended."""

    task_id: str
    graph: str
    """Name of the graph, or of the instruction of a task that runs one: its path is that of a graph of one node."""
    graph_version: str | None = None
    status: TaskStatus
    success: bool | None = None
    """Whether the task has completed; absent before its end."""
    iterations: int
    """Nodes that the run has come to."""
    started_at: str | None = None
    duration_ms: int | None = None
    """Milliseconds from the begin of the run to the end of its last node so far."""
    path: list[NodeVisit]
    final_message: str | None = None
    """Text with which the task has completed."""
    state: dict[str, Any] = Field(default_factory=dict)
    """State of the run as it is now, or was at its end."""
