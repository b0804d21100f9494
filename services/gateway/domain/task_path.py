"""The path of a task through its graph, made of its transcript. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import rfc3339
from pentad.contracts.paths import NodeVisit, StartedTask, TaskPath
from pentad.contracts.records import NodeEntry, Task
from pentad.shared.actors.transcript import NODE
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.agent_graphs.state import StateError, written
from pentad.shared.clipping import clip

_MAX_ERROR = 500
"""Characters of an agent's error that a path shows."""


def path_of(task: Task, messages: Sequence[Mapping[str, Any]], graph: GraphSpec | None, version: str) -> TaskPath:
    """Return the path of a task's newest run. ``messages``: its transcript as inspection shows it.

    ``graph``: the graph that it runs, if that is still kept.
    """
    entries = _newest_run(_entries(messages))
    visits = _Visits(graph, _results(messages))
    for entry in entries:
        visits.add(entry)
    run = GraphRun().after(entries)
    ended = task.completed_at is not None
    return TaskPath(
        task_id=task.task_id,
        graph=task.instruction,
        graph_version=version or None,
        status=task.status,
        success=task.status == "completed" if ended else None,
        iterations=len(visits.made),
        started_at=rfc3339(entries[0].at_ms) if entries else None,
        duration_ms=entries[-1].at_ms - entries[0].at_ms if entries else None,
        path=visits.made,
        final_message=_final(messages) if task.status == "completed" else None,
        state=_state(run, graph),
    )


def path_of_agents(task: Task, messages: Sequence[Mapping[str, Any]]) -> TaskPath | None:
    """Return the path of a task that runs an instruction, as that of a graph of one node, with the tasks of the agents
    that it has called; None if it has called none. ``messages``: its transcript as inspection shows it.
    """
    results = _results(messages)
    tasks = [_started(entry, results) for entry in _entries(messages) if entry.kind == "started"]
    if not tasks:
        return None
    ended = task.completed_at is not None
    success = task.status == "completed" if ended else None
    visit = NodeVisit(
        node=task.instruction,
        kind="llm",
        started_at=task.created_at,
        outcome="running" if not ended else "ok" if success else "failed",
        error=task.detail if success is False else None,
        tasks=_left(tasks) if ended else tasks,
    )
    return TaskPath(
        task_id=task.task_id,
        graph=task.instruction,
        status=task.status,
        success=success,
        iterations=1,
        started_at=task.created_at,
        path=[visit],
        final_message=_final(messages) if task.status == "completed" else None,
    )


def _entries(messages: Sequence[Mapping[str, Any]]) -> list[NodeEntry]:
    return [NodeEntry.model_validate(each) for each in messages if each.get("role") == NODE]


def _results(messages: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the results of calls by the ids of the calls."""
    return {str(each.get("tool_call_id")): each for each in messages if each.get("role") == "tool"}


def _started(entry: NodeEntry, results: Mapping[str, Mapping[str, Any]]) -> StartedTask:
    """Return the task that an entry has started; the end of an agent's task is the result of its call."""
    begun = StartedTask(
        task_id=entry.child or "",
        index=entry.index,
        name=entry.name or "",
        outcome="running",
        started_at=rfc3339(entry.at_ms),
    )
    result = results.get(entry.call or "")
    if entry.node or result is None:
        return begun
    end: dict[str, Any] = {"outcome": "ok", "duration_ms": result.get("duration_ms")}
    if result.get("failed"):
        end |= {"outcome": "failed", "error": clip(str(result.get("content")), _MAX_ERROR)}
    return begun.model_copy(update=end)


def _left(tasks: Sequence[StartedTask]) -> list[StartedTask]:
    """Return the tasks of a node that goes on without those that still run: they are cancelled."""
    return [each.model_copy(update={"outcome": "cancelled"}) if each.outcome == "running" else each for each in tasks]


def _newest_run(entries: list[NodeEntry]) -> list[NodeEntry]:
    """Return the entries of the newest run; one that went on after a failure is the same run."""
    begun = 0
    for number, entry in enumerate(entries):
        goes_on = number and entries[number - 1].kind == "failed" and entries[number - 1].node == entry.node
        if entry.kind == "begin" and not goes_on:
            begun = number
    return entries[begun:]


def _state(run: GraphRun, graph: GraphSpec | None) -> dict[str, Any]:
    try:
        return dict(written(run.first_state, run.writes, {} if graph is None else graph.reducers))
    except StateError:  # only without the reducers of its graph
        return {}


def _final(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text of the last answer."""
    said = (each for each in reversed(messages) if each.get("role") == "assistant" and not each.get("origin"))
    return next((str(each["content"]) for each in said if each.get("content")), None)


class _Visits:
    """The visits to nodes, as entries tell of them."""

    def __init__(self, graph: GraphSpec | None, results: Mapping[str, Mapping[str, Any]]) -> None:
        self._graph, self._results = graph, results
        self.made: list[NodeVisit] = []
        self._at_ms = 0
        """Time at which the run came to the newest node."""
        self._begun: dict[str, int] = {}
        """Times at which tasks were started."""

    def add(self, entry: NodeEntry) -> None:
        """Take the next entry."""
        match entry.kind:
            case "begin":
                self._begin(entry)
            case "retry":
                self._change(attempts=self.made[-1].attempts + 1, error=entry.error)
            case "decided":
                self._change(judged=self.made[-1].judged | self._conditions(entry))
            case "started":
                self._start_task(entry)
            case "joined":
                self._join(entry)
            case "end" | "failed":
                self._leave(entry)

    def _begin(self, entry: NodeEntry) -> None:
        if self.made and self.made[-1].outcome == "failed":
            self._change(outcome="running", attempts=self.made[-1].attempts + 1, duration_ms=None)
        else:
            self._visit(entry.node, entry.at_ms)

    def _visit(self, key: str, at_ms: int) -> None:
        node = self._graph.by_key.get(key) if self._graph is not None else None
        kind = None if node is None else node.kind
        self.made.append(NodeVisit(node=key, kind=kind, started_at=rfc3339(at_ms), outcome="running"))
        self._at_ms = at_ms

    def _leave(self, entry: NodeEntry) -> None:
        tasks = _left(self.made[-1].tasks)
        failed = entry.kind == "failed" or entry.error is not None
        outcome = {"outcome": "failed" if failed else "ok", "error": entry.error or self.made[-1].error}
        self._change(duration_ms=entry.at_ms - self._at_ms, next=entry.next, tasks=tasks, **outcome)
        if entry.next is not None:
            self._visit(entry.next, entry.at_ms)

    def _start_task(self, entry: NodeEntry) -> None:
        begun = _started(entry, self._results)
        self._begun[begun.task_id] = entry.at_ms
        self._change(tasks=_in_order([*self.made[-1].tasks, begun]))

    def _join(self, entry: NodeEntry) -> None:
        took = entry.at_ms - self._begun.get(entry.child or "", entry.at_ms)
        end = {"outcome": "ok" if entry.error is None else "failed", "error": entry.error, "duration_ms": took}
        tasks = [each.model_copy(update=end) if each.task_id == entry.child else each for each in self.made[-1].tasks]
        self._change(tasks=tasks)

    def _conditions(self, entry: NodeEntry) -> dict[str, bool]:
        edges = [] if self._graph is None else self._graph.edges_by_source.get(entry.node, [])
        return {_condition(edges, number): outcome for number, outcome in entry.holds.items()}

    def _change(self, **fields: Any) -> None:
        self.made[-1] = self.made[-1].model_copy(update=fields)


def _condition(edges: Sequence[Any], number: int) -> str:
    if number >= len(edges):
        return str(number)
    return str(edges[number].when or edges[number].check or number)


def _in_order(tasks: Iterable[StartedTask]) -> list[StartedTask]:
    return sorted(tasks, key=lambda each: each.index)
