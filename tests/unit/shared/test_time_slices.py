"""Long work is done in pieces: in order, one at each turn of the loop whoever asks; what is short waits for none."""

import asyncio
from collections.abc import Iterator

from pentad.shared.event_loop import LARGE_VALUE, TimeSlices, turn_after


async def all_of(pieces: TimeSlices, making: Iterator[int]) -> list[int]:
    made: list[int] = []
    while piece := await pieces.next(making):
        made += piece
    return made


async def turns_beside(work: asyncio.Task[object]) -> int:
    """Turns of the loop until the work is done."""
    turns = 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_all_is_made_in_order() -> None:
    for number in (0, 1, 3, 4, 5, 8, 9):
        assert await all_of(TimeSlices(4), iter(range(number))) == list(range(number))


async def test_of_several_one_piece_is_made_at_each_turn() -> None:
    pieces, made = TimeSlices(4), list[int]()

    def counted(begin: int) -> Iterator[int]:
        for number in range(begin, begin + 40):
            made.append(number)
            yield number

    several = [asyncio.create_task(all_of(pieces, counted(begin))) for begin in (0, 100, 200)]
    most = before = 0
    while not all(each.done() for each in several):
        await asyncio.sleep(0)
        most, before = max(most, len(made) - before), len(made)
    assert [each.result() for each in several] == [list(range(begin, begin + 40)) for begin in (0, 100, 200)]
    assert most == 4
    assert made[:12] == [0, 1, 2, 3, 100, 101, 102, 103, 200, 201, 202, 203], "each in turn"


async def test_what_fits_into_a_piece_waits_for_no_turn() -> None:
    assert await turns_beside(asyncio.create_task(TimeSlices(4).next(iter(range(3))))) == 1
    assert await turns_beside(asyncio.create_task(TimeSlices(4).next(iter(range(4))))) == 2


async def test_behind_a_large_value_others_have_a_turn() -> None:
    """Promise: what reads or writes value by value holds the loop for one large value at most."""
    assert await turns_beside(asyncio.create_task(turn_after(LARGE_VALUE))) == 1
    assert await turns_beside(asyncio.create_task(turn_after(LARGE_VALUE + 1))) == 2
