"""Durable timers: what is due becomes mail, once, and what was moved is not due."""

import asyncio
from typing import cast

import pytest

from pentad.contracts.streams import ARCHIVE
from pentad.shared.keys import timers
from pentad.shared.kinds import TimerKind
from pentad.shared.store.store import Argument
from pentad.shared.work.timers import TimerLoop
from tests.integration.actors.moves import TASK, Moves, commit

FIRE_KEYS = [timers(0), TASK.header, TASK.signals, TASK.wake, ARCHIVE.key(0)]


async def set_timers(moves: Moves, **delays_ms: int) -> None:
    """By a commit, as tasks do."""
    await moves.mail("other")
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    step = commit()
    step.unmail([m.number for m in taken.mail])
    for kind, delay in delays_ms.items():
        step.timer(TASK, cast(TimerKind, kind), delay)
    assert await moves.one.commit(step, taken) == "committed"


async def fire(moves: Moves, kind: str) -> int:
    args: list[Argument] = [f"{kind} {TASK.actor}", kind, TASK.actor]
    fired: int = (await moves.store.run("fire", FIRE_KEYS, args))[0]
    return fired


async def test_two_loops_fire_a_timer_once(moves: Moves) -> None:
    await set_timers(moves, timeout=0, retry=0, deadline=60_000)
    loops = [TimerLoop(moves.store, [0]) for _ in range(2)]
    await asyncio.gather(*(loop.fire(0) for loop in loops))
    assert sorted(await moves.kinds()) == ["retry", "timeout"]
    assert len(await moves.read()) == 1
    assert await moves.store.call("ZCARD", timers(0)) == 1


async def test_a_timer_that_was_moved_after_it_was_found_due_does_not_fire(moves: Moves) -> None:
    await set_timers(moves, timeout=0)
    await set_timers(moves, timeout=60_000)
    assert await fire(moves, "timeout") == 0
    assert await moves.kinds() == []
    assert await moves.store.call("ZCARD", timers(0)) == 1


async def test_a_timer_of_a_task_that_is_gone_makes_no_key(moves: Moves) -> None:
    await set_timers(moves, timeout=0)
    await moves.store.call("DEL", *TASK.all())
    assert await fire(moves, "timeout") == 0
    assert await moves.store.call("EXISTS", *TASK.all(), timers(0)) == 0


@pytest.mark.parametrize(("kind", "control"), [("deadline", "deadline"), ("timeout", None), ("retry", None)])
async def test_a_deadline_interrupts_what_runs(moves: Moves, kind: str, control: str | None) -> None:
    await set_timers(moves, **{kind: 0})
    assert await fire(moves, kind) == 1
    assert (await moves.header()).get("control") == control


async def test_the_archive_timer_wakes_the_archiver_and_not_the_task(moves: Moves) -> None:
    await set_timers(moves, archive=0)
    assert await fire(moves, "archive") == 1
    assert (await moves.kinds(), await moves.store.call("XLEN", ARCHIVE.key(0))) == ([], 1)


async def test_a_removed_timer_does_not_fire(moves: Moves) -> None:
    await set_timers(moves, timeout=0)
    await moves.mail("other")
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    step = commit()
    step.unmail([m.number for m in taken.mail])
    step.untimer(TASK, "timeout", "retry")
    await moves.one.commit(step, taken)
    assert await TimerLoop(moves.store, [0]).fire(0) == 0
    assert await moves.kinds() == []


async def test_a_timer_that_nobody_can_read_is_removed_and_stops_no_other(moves: Moves) -> None:
    """Law 8: somebody else's entry must not end the loop that fires everybody's timers."""
    await set_timers(moves, timeout=0)
    await moves.store.call("ZADD", timers(0), 0, "rubbish", 1, b"\xff \xff", 2, "retry /")
    assert await TimerLoop(moves.store, [0]).fire(0) == 4
    assert await moves.kinds() == ["timeout"]
    assert await moves.store.call("ZCARD", timers(0)) == 0
