"""What is erased is what was there, and what is said later stays, also while the clock of Redis has stepped back."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pentad.contracts.streams import INBOUND
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable
from tests.support.processes import clocks
from tests.support.redis.redis_server import RedisServer

Step = Callable[[int], None]
MINUTES = 60
pytestmark = pytest.mark.skipif(clocks.missing() is not None, reason=str(clocks.missing()))


@pytest.fixture
def stepped(tmp_path: Path) -> clocks.Clocks:
    """The clocks of this test."""
    return clocks.Clocks(tmp_path / "clocks")


@pytest.fixture
async def world(stepped: clocks.Clocks, tmp_path: Path) -> AsyncIterator[Erasable]:
    """Services and stores that know of nothing yet, over a Redis whose clock can step."""
    server = RedisServer()
    server.clock = stepped.environment("redis")
    async with server:
        store = Store(server.url)
        made = await Erasable(store, tmp_path).prepare()
        yield made
        await made.aclose()
        await store.close()


async def say(world: Erasable, content: str, session: str = "s1") -> None:
    """Ada says something, which gets its id from the inbound stream."""
    entry = await world.store.call("XADD", INBOUND.key(), "*", "data", "{}")
    fields = {"user_id": "ada", "message_id": content.split()[1], "task_id": "new"}
    await world.flow.ingested(content, entry.decode(), session, **fields)


async def tell(world: Erasable, content: str, session: str = "s1") -> TaskKeys:
    """Ada says something in a task of its own, to its end; the task."""
    before = set(await world.tasks())
    await say(world, content, session)
    await world.flow.drive()
    (name,) = set(await world.tasks()) - before
    return TaskKeys(0, "default", name)


@pytest.mark.parametrize("kind", ["task", "session", "user"])
@pytest.mark.parametrize("state", ["ended", "remembered", "archived"])
async def test_what_was_said_before_the_clock_stepped_back_is_erased(
    world: Erasable, stepped: clocks.Clocks, kind: str, state: str
) -> None:
    """Its times lie ahead of the clock of the erasure, which was accepted, and removed nothing for ten minutes."""
    task = await tell(world, "my zebra is called Ada")
    await world.bring_to(state, task)
    stepped.step(["redis"], -10 * MINUTES)
    await world.ask(kind, task)
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.left_of(task) == []


@pytest.mark.parametrize("kind", ["session", "user"])
@pytest.mark.parametrize("first", ["step", "ask"])
async def test_what_is_said_behind_the_erasure_stays_while_the_clock_is_back(
    world: Erasable, stepped: clocks.Clocks, kind: str, first: str
) -> None:
    """Its times lie before that of the mark, but it is of later: also a late redelivery leaves it."""
    task = await tell(world, "my zebra is called Ada")
    for what in (first, "ask" if first == "step" else "step"):
        if what == "step":
            stepped.step(["redis"], -10 * MINUTES)
        else:
            await world.ask(kind, task)
    boat = await tell(world, "my boat is green", "s1" if kind == "session" else "s2")
    await world.erase()
    assert await world.traces("zebra") == []
    await world.bring_to("archived", boat)
    found = await world.traces("boat")
    assert [trace for trace in found if trace.startswith("point")], found
    assert [trace for trace in found if trace.startswith("known")], found
    assert [trace for trace in found if boat.task in trace and trace.endswith(".json")], found


async def test_a_message_that_waits_stays_when_it_was_accepted_behind_the_erasure(
    world: Erasable, stepped: clocks.Clocks
) -> None:
    """Ids of entries do not go back with the clock: theirs is the order that counts, not the time of the mark."""
    stepped.step(["redis"], 10 * MINUTES)
    task = await tell(world, "my zebra is called Ada")
    await world.ask("user", task)
    stepped.step(["redis"], -10 * MINUTES)
    await say(world, "my boat is green")
    await world.erase()
    await world.flow.drive()
    assert await world.traces("zebra") == []
    assert await world.traces("boat")
