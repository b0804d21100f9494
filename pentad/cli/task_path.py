"""The way of a task through its graph as a tree: its nodes, and below them the tasks that they have started."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pentad.cli.render import Style, lasting, one_line, plural, width
from pentad.client.inspection import Inspection
from pentad.contracts.graphs import MAX_DEPTH
from pentad.contracts.paths import NodeVisit, StartedTask, TaskPath
from pentad.errors import Conflict, NotFound

MAX_TASKS = 50
"""Started tasks whose own nodes are shown."""
MAX_LINES = 500
"""Lines of the whole tree."""
_SIGNS = {"ok": "✓", "failed": "✗", "running": "…", "cancelled": "-"}
_STEP = "  "
_LEAST_ERROR = 30
"""Characters of an error that are shown in however narrow a window."""


@dataclass(slots=True)
class PathTree:
    """The path of a task, and the paths of the tasks below it by their ids, as far as they are shown."""

    root: TaskPath
    below: dict[str, TaskPath] = field(default_factory=dict)


async def path_of_task(inspection: Inspection, task_id: str) -> TaskPath | None:
    """Return the path of a task; None if it runs no graph and has called no agents. Raises ``ClientError``."""
    try:
        return await inspection.path(task_id)
    except (Conflict, NotFound):  # it runs an instruction alone; or the gateway is older than graphs
        return None


async def tree_of(inspection: Inspection, root: TaskPath) -> PathTree:
    """Return a path with those below it, the nearest first, `MAX_TASKS` at most. Raises ``ClientError``."""
    tree, level, asked = PathTree(root), [root], 0
    for _ in range(MAX_DEPTH):
        started = [task.task_id for path in level for visit in path.path for task in visit.tasks]
        level = []
        for name in started[: MAX_TASKS - asked]:
            if (path := await path_of_task(inspection, name)) is not None:
                tree.below[name] = path
                level.append(path)
        asked += min(len(started), MAX_TASKS - asked)
    return tree


def tree_lines(tree: PathTree, style: Style) -> list[str]:
    """Return the lines that show a path: what the run is, its nodes, and below them the tasks that they started."""
    root = tree.root
    took = f" in {lasting(root.duration_ms)}" if root.duration_ms is not None else ""
    if root.graph_version is None:  # it runs an instruction that has called agents
        lines = [style.bold(_name(root.graph)) + f": {root.status}"]
    else:
        lines = [style.bold(f"graph {_name(root.graph)}") + f": {root.status}, {plural(root.iterations, 'node')}{took}"]
    lines += _visits(tree, root.path, _STEP, style, 0)
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], style.dim(f"… and {len(lines) - MAX_LINES} lines more: --json has all of a task")]
    return lines


def _visits(tree: PathTree, visits: Sequence[NodeVisit], indent: str, style: Style, depth: int) -> list[str]:
    lines: list[str] = []
    for visit in visits:
        lines.append(_visit(visit, indent, style))
        lines += [style.dim(f"{indent}  {_told(text, holds, indent)}") for text, holds in visit.judged.items()]
        for task in visit.tasks:
            lines.append(_task(task, indent + _STEP, style))
            if depth < MAX_DEPTH and (path := tree.below.get(task.task_id)) is not None:
                lines += _visits(tree, path.path, indent + 2 * _STEP, style, depth + 1)
    return lines


def _told(condition: str, holds: bool, indent: str) -> str:
    return f"{'yes' if holds else 'no'}: {one_line(condition, max(_LEAST_ERROR, width() - len(indent) - 8))}"


def _visit(visit: NodeVisit, indent: str, style: Style) -> str:
    kind = f" ({visit.kind})" if visit.kind else ""
    head = f"{indent}{_SIGNS[visit.outcome]} {visit.node}{kind}{_times(visit)}"
    tries = f" {visit.attempts} attempts" if visit.attempts > 1 else ""
    following = f" → {visit.next}" if visit.next else ""
    return _with_error(head + tries + following, visit.error, visit.outcome, style)


def _task(task: StartedTask, indent: str, style: Style) -> str:
    head = f"{indent}{_SIGNS[task.outcome]} {_name(task.name)} [{task.index}] {task.task_id}{_times(task)}"
    return _with_error(head, task.error, task.outcome, style)


def _name(text: str) -> str:
    return one_line(text, width())


def _times(part: NodeVisit | StartedTask) -> str:
    if part.duration_ms is None:
        return f" since {part.started_at}" if part.outcome == "running" else ""
    return f" {lasting(part.duration_ms)}"


def _with_error(head: str, error: str | None, outcome: str, style: Style) -> str:
    coloured = style.red(head) if outcome == "failed" else style.dim(head) if outcome == "cancelled" else head
    if error is None:
        return coloured
    return coloured + style.dim(f": {one_line(error, max(_LEAST_ERROR, width() - len(head) - 2))}")
