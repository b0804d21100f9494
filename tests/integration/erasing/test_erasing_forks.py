"""To erase a task, a session or a user erases the forks of it, wherever they are: they have its words."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable
from tests.support.forking import Forking


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[Erasable]:
    """A system without tasks."""
    made = await Erasable(store, tmp_path).prepare()
    yield made
    await made.aclose()


async def _forks(world: Erasable, task: TaskKeys) -> list[TaskKeys]:
    """A fork of the task, a fork of that one, and another one of the task; in this order."""
    forking = Forking(world.store, world.records, world.flow.settings)
    names = [(await forking.fork(task.task, 1, content="one")).task_id]
    await world.flow.drive()
    names.append((await forking.fork(names[0], 1, content="two")).task_id)
    names.append((await forking.fork(task.task, 0, "f2")).task_id)
    await world.flow.drive()
    return [TaskKeys(0, "default", name) for name in names]


@pytest.mark.parametrize("kind", ["task", "session", "user"])
@pytest.mark.parametrize("state", ["ended", "archived"])
async def test_nothing_of_its_forks_is_left(world: Erasable, kind: str, state: str) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    forks = await _forks(world, task)
    await world.bring_to(state, task, *forks)
    for fork in forks:
        assert await world.left_of(fork) != [] or state == "archived"
    await world.ask(kind, task)
    await world.erase()
    assert await world.traces("zebra") == []
    for each in (task, *forks):
        assert await world.left_of(each) == []


async def test_to_erase_a_fork_leaves_the_task_and_other_forks(world: Erasable) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    first, second, other = await _forks(world, task)
    await world.ask("task", first)
    await world.erase()
    assert await world.left_of(first) == await world.left_of(second) == []
    assert await world.left_of(task) != []
    assert await world.left_of(other) != []
