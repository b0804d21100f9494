"""To erase a task erases the tasks that it has started: branches, items and graphs have what it has told them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable
from tests.integration.handlers.graph_flow import ask, graph, llm

INNER = graph("inner", [llm("deep"), llm("deeper")], ("deep", "deeper"))
TREE = graph(
    "tree",
    [
        {"key": "fan", "kind": "parallel", "branches": ["one", "two"], "join": "all", "then": "last"},
        llm("one"),
        {"key": "two", "kind": "graph", "graph": "inner"},
        llm("last"),
    ],
)
ASKS = graph(
    "asks", [{"key": "fan", "kind": "parallel", "branches": ["one", "two"], "join": "all"}, ask("one"), llm("two")],
    ends=["fan"],
)  # fmt: skip


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[Erasable]:
    """A system that has these graphs."""
    made = await Erasable(store, tmp_path).prepare()
    made.flow.graphs.update({each.name: each for each in (INNER, TREE, ASKS)})
    yield made
    await made.aclose()


async def _run(world: Erasable, name: str) -> tuple[TaskKeys, list[TaskKeys]]:
    """Run a graph; the task, and those that it has started."""
    await world.flow.say("my zebra is called Ada", user_id="ada", instruction=name)
    await world.flow.drive()
    tasks = [TaskKeys(0, "default", each) for each in await world.tasks()]
    parents = [await world.store.call("HGET", task.header, "parent") for task in tasks]
    (root,) = [task for task, parent in zip(tasks, parents, strict=True) if not parent]
    return root, [task for task in tasks if task != root]


@pytest.mark.parametrize("kind", ["task", "session", "user"])
@pytest.mark.parametrize("state", ["ended", "archived"])
async def test_nothing_of_a_tree_is_left(world: Erasable, kind: str, state: str) -> None:
    root, started = await _run(world, "tree")
    assert len(started) == 3
    await world.bring_to(state, root)
    if state == "archived":
        for task in started:
            await world.archive(task)
    assert len(await world.traces("zebra")) > 3
    await world.ask(kind, root)
    await world.erase()
    assert await world.traces("zebra") == []
    for task in (root, *started):
        assert await world.left_of(task) == []


async def test_a_tree_that_goes_on_is_cancelled_first(world: Erasable) -> None:
    root, started = await _run(world, "asks")
    assert len(started) == 2
    await world.ask("task", root)
    await world.erase()
    await world.flow.drive()
    assert await world.traces("zebra") == []
    for task in (root, *started):
        assert await world.left_of(task) == []
