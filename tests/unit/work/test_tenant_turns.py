"""Places for calls: one tenant has a few, and what is free goes round among those who wait."""

import asyncio

import pytest

from pentad.shared.work.tenant_turns import TenantTurns, TooManyWaitError
from tests.support.waiting import wait_until


class Calls:
    """Calls that end when the test says so, and the order in which they were begun."""

    def __init__(self, turns: TenantTurns) -> None:
        self.turns = turns
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, *names: str) -> None:
        """Calls whose first letter is their tenant."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name))

    async def _call(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def until(self, *names: str) -> None:
        """Wait until these have begun, in this order, and no other."""
        await wait_until(f"{names}", lambda: len(self.begun) >= len(names))
        assert self.begun == [*names]

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]


async def test_one_tenant_has_its_few_and_leaves_the_others_places() -> None:
    calls = Calls(TenantTurns(each=2, total=4))
    calls.ask("a1", "a2", "a3", "a4", "b1")
    await calls.until("a1", "a2", "b1")
    await calls.end("a1")
    await calls.until("a1", "a2", "b1", "a3")


async def test_free_places_go_round_among_the_tenants_that_wait() -> None:
    calls = Calls(TenantTurns(each=4, total=1))
    calls.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    order = ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    for number in range(1, len(order) + 1):
        await calls.until(*order[:number])
        await calls.end(order[number - 1])


async def test_beyond_those_who_may_wait_a_call_is_refused_at_once_and_others_tenants_are_not() -> None:
    calls = Calls(TenantTurns(each=1, total=2, most_waiting=1))
    calls.ask("a1", "a2", "a3", "b1")
    with pytest.raises(TooManyWaitError, match="1 calls are under way, and 1 wait"):
        await calls.tasks["a3"]
    await calls.until("a1", "b1")
    await calls.end("a1")
    await calls.until("a1", "b1", "a2")


@pytest.mark.parametrize("given", [False, True], ids=["waiting", "given a place"])
async def test_who_leaves_takes_no_place_along(given: bool) -> None:
    calls = Calls(TenantTurns(each=2, total=1))
    calls.ask("a1", "a2", "a3")
    await calls.until("a1")
    if given:
        calls._ends["a1"].set()
        await calls.tasks["a1"]  # whose end gives a place to the second, which does not know yet
    calls.tasks["a2"].cancel()
    if not given:
        await asyncio.wait([calls.tasks["a2"]])
        await calls.end("a1")
    await wait_until("the third to begin", lambda: "a3" in calls.begun)
    await calls.end("a3")
    calls.ask("b1")
    await wait_until("another to begin", lambda: "b1" in calls.begun)


async def test_a_call_that_is_cancelled_in_the_moment_in_which_a_place_becomes_free_loses_no_place() -> None:
    calls = Calls(TenantTurns(each=2, total=1))
    calls.ask("a1", "a2", "a3")
    await calls.until("a1")
    calls._ends["a1"].set()
    calls.tasks["a2"].cancel()  # wakes up after the first, whose end finds its cancelled place in the queue
    await asyncio.wait([calls.tasks["a1"], calls.tasks["a2"]])
    assert calls.tasks["a1"].exception() is None
    assert calls.tasks["a2"].cancelled()
    await wait_until("the third to begin", lambda: "a3" in calls.begun)
    await calls.end("a3")
    calls.ask("b1")
    await wait_until("another to begin", lambda: "b1" in calls.begun)
