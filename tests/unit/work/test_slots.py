"""Places are taken in turn, never more than there are, and none is lost with whoever waited for it."""

import asyncio

from pentad.shared.event_loop import cancel_all
from pentad.shared.work.intake import Slots
from tests.support.waiting import PATIENCE_S


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_as_many_are_taken_as_are_free_and_wanted() -> None:
    slots = Slots(5)
    assert [await slots.acquire(2), await slots.acquire(8)] == [2, 3]
    assert slots.free == 0


async def test_who_waits_is_served_in_turn_and_nobody_goes_before() -> None:
    slots = Slots(1)
    await slots.acquire(1)
    served: list[str] = []

    async def want(name: str) -> None:
        await slots.acquire(1)
        served.append(name)

    waiting = [asyncio.create_task(want(name)) for name in "ab"]
    await settle()
    slots.give(1)
    waiting.append(asyncio.create_task(want("c")))
    for _ in range(2):
        await settle()
        slots.give(1)
    await asyncio.gather(*waiting)
    assert served == ["a", "b", "c"]


async def test_what_one_leaves_goes_to_the_next() -> None:
    slots = Slots(0)
    waiting = [asyncio.create_task(slots.acquire(2)) for _ in range(3)]
    await settle()
    slots.give(4)
    await settle()
    assert [task.done() for task in waiting] == [True, True, False]
    await cancel_all(waiting)


async def test_a_place_is_not_lost_with_whoever_gave_up_waiting() -> None:
    slots = Slots(0)
    first, second = [asyncio.create_task(slots.acquire(1)) for _ in range(2)]
    await settle()
    slots.give(1)  # the first is told, and cancelled before it can take
    first.cancel()
    assert await asyncio.wait_for(second, PATIENCE_S) == 1
    assert (first.cancelled(), slots.free) == (True, 0)
    third, fourth = [asyncio.create_task(slots.acquire(1)) for _ in range(2)]
    await settle()
    third.cancel()
    await settle()
    slots.give(1)
    assert await asyncio.wait_for(fourth, PATIENCE_S) == 1
