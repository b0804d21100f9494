"""Law 8: a handler that fails everything stops, instead of dead-lettering its stream, and goes on by itself."""

import asyncio
from collections import Counter

import pytest

from pentad.contracts.streams import DEAD, TASK_WAKE
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.leases import Held, LeaseKeeper
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import TaskKeys, attempts
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry
from pentad.shared.work.wake_ups import WakeUps
from tests.integration.work.crew import add, settled, working
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.shared.work.intake.PROBE_S", 0.05)


async def test_entries_wait_while_everything_fails_and_are_done_when_it_works_again(store: Store) -> None:
    broken, tries, done = True, 0, Counter[bytes]()

    async def work(entry: Entry) -> None:
        nonlocal tries
        tries += 1
        if broken:
            raise RuntimeError("a library is missing")
        done[entry.data] += 1

    async with working(store, "one", work, attempts=5) as handler:
        for number in range(30):
            await add(store, f"x{number}")
        await wait_until("the breaker", lambda: handler.consumer.trouble is not None)
        assert "the last 20 attempts failed" in (handler.consumer.trouble or "")
        assert "RuntimeError: a library is missing" in (handler.consumer.trouble or "")
        before = tries
        await wait_until("some probes", lambda: tries >= before + 12)
        assert await store.call("XLEN", DEAD.key(0)) == 0
        broken = False
        await wait_until("all of them", lambda: len(done) == 30)
        await wait_until("the acknowledgements", lambda: settled(store))
        assert handler.consumer.trouble is None
    assert set(done.values()) == {1}
    assert await store.call("EXISTS", DEAD.key(0)) == 0


async def test_what_was_counted_before_is_forgotten_with_its_entry(store: Store) -> None:
    failing = {"x0"}

    async def work(entry: Entry) -> None:
        if entry.data.decode().strip('"') in failing:
            failing.clear()
            raise RuntimeError("once")

    async with working(store, "one", work, attempts=5) as handler:
        await add(store, "x0")
        await wait_until("the work", lambda: settled(store) if not failing else False)
        assert handler.consumer.trouble is None
    assert await store.call("EXISTS", attempts(0)) == 0


class _Broken(WakeUps[TaskKeys]):
    """Fails until it is mended."""

    failing = "step"

    def __init__(self, actors: Actors, keeper: LeaseKeeper) -> None:
        super().__init__(actors, keeper, 0, max_attempts=5)
        self.broken = True
        self.served, self.given_up = Counter[str](), Counter[str]()

    def keys_of(self, tenant: str, name: str) -> TaskKeys:
        return TaskKeys(0, tenant, name)

    async def serve(self, keys: TaskKeys, taken: Taken, held: Held) -> None:
        if self.broken:
            raise RuntimeError("nothing works")
        self.served[keys.task] += 1
        commit = Commit(keys, f"step-{keys.task}")
        commit.consume(taken.read)
        await self._actors.commit(commit, taken)

    async def give_up(self, keys: TaskKeys, taken: Taken, reason: str, attempts: int) -> None:
        self.given_up[keys.task] += 1


async def test_actors_are_handed_back_untouched_while_everything_fails(store: Store) -> None:
    actors = Actors(store, "one", 2000)
    keeper = LeaseKeeper(actors)
    handler = _Broken(actors, keeper)
    tasks = [TaskKeys(0, "default", f"t{number}") for number in range(24)]  # the breaker looks at 20 attempts
    for task in tasks:
        await store.call("HSET", task.header, "status", "active")
        await actors.post(task, "user", b"{}", ("active",))
    beat = asyncio.create_task(keeper.run())
    consumer = Consumer(store, TASK_WAKE, TASK_WAKE.key(0), 0, "one", handler, 64, 2000)
    await consumer.start()
    await wait_until("the breaker", lambda: consumer.trouble is not None)
    handler.broken = False
    await wait_until("every task to be served", lambda: len(handler.served) == len(tasks))
    await wait_until("all to be well", lambda: consumer.trouble is None)
    await consumer.stop_reading()
    await consumer.drain()
    await cancel_all([beat])
    assert (set(handler.served.values()), handler.given_up) == ({1}, Counter())
    starts = [await store.call("HGET", task.header, "starts") for task in tasks]
    assert starts == [b"0"] * len(tasks), "nothing is counted of what the handler alone is to blame for"


async def test_one_actor_that_always_fails_is_its_own_matter(store: Store) -> None:
    actors = Actors(store, "one", 2000)
    handler = _Broken(actors, LeaseKeeper(actors))
    for number in range(100):
        handler.breaker.failed(f"t{number % 4}", "it fails")
    assert not handler.breaker.open
    for number in range(19):
        handler.breaker.failed(f"t{number}", "it fails")
    handler.breaker.succeeded()
    handler.breaker.failed("t1", "it fails")
    assert not handler.breaker.open
