"""A task's way through its graph, as the command line draws it."""

from typing import Any

import pytest

from pentad.cli.render import Style
from pentad.cli.task_path import MAX_LINES, MAX_TASKS, PathTree, tree_lines, tree_of
from pentad.contracts.paths import TaskPath
from pentad.errors import Conflict

AT = "2030-01-01T00:00:00.000Z"


def path(task: str, *visits: dict[str, Any], **fields: Any) -> TaskPath:
    about = {"task_id": task, "graph": "writer", "graph_version": "1", "status": "completed"}
    return TaskPath.model_validate(about | {"iterations": len(visits), "path": visits} | fields)


def visit(node: str, kind: str = "llm", outcome: str = "ok", **fields: Any) -> dict[str, Any]:
    took = {} if outcome == "running" else {"duration_ms": 5}
    return {"node": node, "kind": kind, "started_at": AT, "outcome": outcome} | took | fields


def started(task: str, index: int = 0, outcome: str = "ok", **fields: Any) -> dict[str, Any]:
    return {"task_id": task, "index": index, "name": "a", "outcome": outcome, "started_at": AT} | fields


class Paths:
    """An inspection that knows these paths; a task without one runs an instruction."""

    def __init__(self, *paths: TaskPath) -> None:
        self._paths = {each.task_id: each for each in paths}
        self.asked: list[str] = []

    async def path(self, task_id: str) -> TaskPath:
        self.asked.append(task_id)
        if task_id not in self._paths:
            raise Conflict("it runs an instruction")
        return self._paths[task_id]


async def test_agents_of_an_instruction_stand_below_it() -> None:
    root = path("t-a", visit("chief", tasks=[started("t-b", name="digger")]), graph="chief", graph_version=None)
    inspection: Any = Paths()
    assert tree_lines(await tree_of(inspection, root), Style(False)) == [
        "chief: completed",
        "  ✓ chief (llm) 5 ms",
        "    ✓ digger [0] t-b",
    ]


async def test_nodes_stand_in_order_and_started_tasks_with_their_own_nodes_below_them() -> None:
    judged = {"it is loud": False, "it is quiet": True}
    fan = visit("fan", "parallel", next="last", tasks=[started("t-b"), started("t-c", 1, "failed", error="no\nway")])
    root = path("t-a", visit("draft", next="fan", judged=judged), fan, visit("last", attempts=3), duration_ms=1200)
    below = path("t-b", visit("sub", "graph", tasks=[started("t-d", name="inner", outcome="cancelled")]))
    inspection: Any = Paths(below, path("t-d", visit("deep", outcome="running")))
    lines = tree_lines(await tree_of(inspection, root), Style(False))
    assert lines == [
        "graph writer: completed, 3 nodes in 1.2 s",
        "  ✓ draft (llm) 5 ms → fan",
        "    no: it is loud",
        "    yes: it is quiet",
        "  ✓ fan (parallel) 5 ms → last",
        "    ✓ a [0] t-b",
        "      ✓ sub (graph) 5 ms",
        "        - inner [0] t-d",
        f"          … deep (llm) since {AT}",
        "    ✗ a [1] t-c: no way",
        "  ✓ last (llm) 5 ms 3 attempts",
    ]


async def test_of_a_thousand_items_a_bounded_number_is_looked_at_and_the_tree_has_an_end() -> None:
    items = [started(f"t-{n}", n) for n in range(1000)]
    root = path("t-a", visit("each", "map", tasks=items))
    inspection: Any = Paths(*(path(f"t-{n}", visit("work")) for n in range(1000)))
    lines = tree_lines(await tree_of(inspection, root), Style(False))
    assert inspection.asked == [f"t-{n}" for n in range(MAX_TASKS)]
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"… and {2 + 1000 + MAX_TASKS - MAX_LINES} lines more: --json has all of a task"


async def test_paths_that_name_each_other_have_an_end() -> None:
    a, b = path("t-a", visit("x", tasks=[started("t-b")])), path("t-b", visit("y", tasks=[started("t-a")]))
    inspection: Any = Paths(a, b)
    lines = tree_lines(await tree_of(inspection, a), Style(False))
    assert len(lines) < 40


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb"])
def test_names_of_a_path_cannot_drive_the_terminal(name: str) -> None:
    root = path("t-a", visit("x", tasks=[started("t-b", name=name, outcome="failed", error=name)]), graph=name)
    for line in tree_lines(PathTree(root), Style(False)):
        assert "\x1b" not in line
        assert "\n" not in line
