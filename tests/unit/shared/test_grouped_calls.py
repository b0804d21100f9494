"""Calls that come together are made together: in order, each caller gets what is its own, and no refusal of another."""

import asyncio
from collections.abc import Sequence

import pytest

from pentad.shared.event_loop import CallsByKey, GroupedCalls


class RefusedItemError(Exception):
    """Refuses an item."""


class Calls:
    """Doubles what it is given, and remembers what was given together."""

    def __init__(self, most: int = 4) -> None:
        self.made: list[list[int]] = []
        self.under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails: BaseException | None = None
        self.grouped = GroupedCalls(self.together, most, refusal=RefusedItemError)

    async def together(self, items: Sequence[int]) -> list[int]:
        self.made.append([*items])
        self.under_way += 1
        assert self.under_way == 1, "one call at a time"
        try:
            await self.gate.wait()
            if self.fails is not None:
                raise self.fails
            if any(item < 0 for item in items):
                raise RefusedItemError(f"one of {items}")
            return [2 * item for item in items]
        finally:
            self.under_way -= 1


async def test_what_comes_in_one_turn_of_the_loop_is_one_call_and_what_comes_meanwhile_the_next() -> None:
    calls = Calls()
    calls.gate.clear()
    first = [asyncio.create_task(calls.grouped.call(n)) for n in range(3)]
    while not calls.made:
        await asyncio.sleep(0)
    later = [asyncio.create_task(calls.grouped.call(n)) for n in range(3, 9)]
    await asyncio.sleep(0)
    calls.gate.set()
    assert await asyncio.gather(*first, *later) == [2 * n for n in range(9)]
    assert calls.made == [[0, 1, 2], [3, 4, 5, 6], [7, 8]]


async def test_an_item_that_weighs_more_than_a_call_may_is_a_call_alone() -> None:
    made: list[list[int]] = []

    async def together(items: Sequence[int]) -> Sequence[int]:
        made.append([*items])
        return items

    grouped = GroupedCalls(together, 10, weight=lambda item: item, refusal=RefusedItemError)
    assert await asyncio.gather(*(grouped.call(n) for n in (3, 99, 4, 6, 1))) == [3, 99, 4, 6, 1]
    assert made == [[3], [99], [4, 6], [1]]


async def test_only_those_are_refused_that_are_refused_alone() -> None:
    calls = Calls()
    found = await asyncio.gather(*(calls.grouped.call(n) for n in (1, -2, 3)), return_exceptions=True)
    assert [found[0], str(found[1]), found[2]] == [2, "one of [-2]", 6]
    assert calls.made == [[1, -2, 3], [1], [-2], [3]]


async def test_another_error_is_everybodys_and_the_next_call_is_made_all_the_same() -> None:
    calls = Calls()
    calls.fails = OSError("away")
    found = await asyncio.gather(*(calls.grouped.call(n) for n in (1, 2)), return_exceptions=True)
    assert [str(each) for each in found] == ["away", "away"]
    assert calls.made == [[1, 2]]
    calls.fails = None
    assert await calls.grouped.call(5) == 10


async def test_for_a_caller_that_has_gone_no_call_is_made() -> None:
    calls = Calls()
    calls.gate.clear()
    first = asyncio.create_task(calls.grouped.call(1))
    while not calls.made:
        await asyncio.sleep(0)
    gone, stays = asyncio.create_task(calls.grouped.call(2)), asyncio.create_task(calls.grouped.call(3))
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    calls.gate.set()
    assert await stays == 6
    assert calls.made == [[1], [3]]


async def test_others_are_waited_for_before_a_call() -> None:
    made: list[list[int]] = []

    async def together(items: Sequence[int]) -> Sequence[int]:
        made.append([*items])
        return items

    grouped = GroupedCalls(together, 10, refusal=RefusedItemError, gather_s=0.2)
    first = asyncio.create_task(grouped.call(1))
    for _ in range(5):
        await asyncio.sleep(0)
    assert await grouped.call(2) == 2
    assert await first == 1
    assert made == [[1, 2]]


async def test_closed_it_gives_up_the_call_and_all_that_wait() -> None:
    calls = Calls()
    calls.gate.clear()
    waiting = [asyncio.create_task(calls.grouped.call(n)) for n in range(6)]
    while not calls.made:
        await asyncio.sleep(0)
    await calls.grouped.aclose()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    assert calls.under_way == 0
    calls.gate.set()
    assert await calls.grouped.call(7) == 14, "it may be used again"


async def test_closed_while_refused_items_are_tried_alone_it_gives_up_those_behind_too() -> None:
    calls = Calls()
    calls.gate.clear()
    waiting = [asyncio.create_task(calls.grouped.call(n)) for n in (1, -2, 3)]
    while not calls.under_way:
        await asyncio.sleep(0)
    calls.gate.set()  # for the call that is under way
    calls.gate.clear()
    while len(calls.made) < 2:
        await asyncio.sleep(0)
    await calls.grouped.aclose()
    ended, hanging = await asyncio.wait(waiting, timeout=5)
    for each in hanging:
        each.cancel()
    assert not hanging
    assert all(each.cancelled() for each in ended)
    assert calls.made == [[1, -2, 3], [1]]


async def test_calls_of_one_key_go_together_and_wait_for_no_other_key() -> None:
    each = {"a": Calls(), "b": Calls()}
    each["a"].gate.clear()
    calls: CallsByKey[str, int, int] = CallsByKey(lambda key: each[key].grouped)
    of_a = [asyncio.create_task(calls.call("a", n)) for n in (1, 2)]
    assert [*await asyncio.gather(calls.call("b", 3), calls.call("b", 4))] == [6, 8]
    assert not any(task.done() for task in of_a)
    each["a"].gate.set()
    assert await asyncio.gather(*of_a) == [2, 4]
    assert {key: of_key.made for key, of_key in each.items()} == {"a": [[1, 2]], "b": [[3, 4]]}


async def test_calls_of_a_key_are_made_anew_and_closed_when_nobody_waits() -> None:
    made: list[Calls] = []

    def make(_: str) -> GroupedCalls[int, int]:
        made.append(Calls())
        made[-1].gate.clear()
        return made[-1].grouped

    calls: CallsByKey[str, int, int] = CallsByKey(make)
    leaving = asyncio.create_task(calls.call("a", 1))
    while not (made and made[0].under_way):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert not made[0].under_way, "the call that nobody waits for is cancelled"
    coming = asyncio.create_task(calls.call("a", 2))
    while len(made) < 2:
        await asyncio.sleep(0)
    made[1].gate.set()
    assert await coming == 4
