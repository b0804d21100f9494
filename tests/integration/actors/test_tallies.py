"""What a commit counts is counted by its outcome: nothing of a refused one, no end that was left out, each once."""

from collections.abc import Sequence
from typing import Any

import pytest

from pentad.shared import metrics
from pentad.shared.actors.actors import Taken
from pentad.shared.actors.commit import Commit
from pentad.shared.errors import OutageError
from pentad.shared.store.store import Argument, Store
from tests.integration.actors.moves import SESSION, TASK, Moves, commit
from tests.support.counting import Counts


@pytest.fixture
async def taken(moves: Moves) -> Taken:
    """The task under the first worker's lease, with one message read."""
    await moves.mail()
    (wake,) = await moves.read()
    return await moves.take(moves.one, wake)


def ending(step_id: str = "") -> Commit:
    """A step that tells its answer, and its end unless a message has come since."""
    step = commit(step_id)
    step.unmail([1])
    step.event(SESSION, b"{}")
    step.tallies.count(metrics.tasks.labels("active"))
    step.mode = "complete"
    step.finish()
    step.event(SESSION, b"{}")
    step.tallies.count(metrics.tasks.labels("completed"))
    return step


def grown(counts: Counts) -> list[float]:
    return [
        counts.of(metrics.published, stream="events"),
        counts.of(metrics.tasks, status="active"),
        counts.of(metrics.tasks, status="completed"),
    ]


async def test_a_commit_that_is_in_counts_all_of_it(moves: Moves, taken: Taken) -> None:
    counts = Counts()
    assert await moves.one.commit(ending(), taken) == "committed"
    assert grown(counts) == [2, 1, 1]


async def test_a_step_without_its_end_counts_no_end(moves: Moves, taken: Taken) -> None:
    await moves.mail()
    counts = Counts()
    assert await moves.one.commit(ending(), taken) == "continued"
    assert grown(counts) == [1, 1, 0]


@pytest.mark.parametrize("refusal", ["lost", "overtaken"])
async def test_a_refused_commit_counts_nothing(moves: Moves, taken: Taken, refusal: str) -> None:
    step = ending()
    if refusal == "overtaken":
        step.expect(TASK.header, "waiting")
    else:
        await moves.expire()
        await moves.take(moves.two, taken.lease.wake_id)
    counts = Counts()
    assert await moves.one.commit(step, taken) == refusal
    assert grown(counts) == [0, 0, 0]


async def test_a_commit_whose_reply_was_lost_counts_once(
    moves: Moves, taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Store.run
    lost: list[Any] = []

    async def lossy(self: Store, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        reply = await run(self, name, keys, args)
        if name == "commit" and len(lost) < 2:
            lost.append(reply)
            raise OutageError("the reply was lost")
        return reply

    monkeypatch.setattr(Store, "run", lossy)
    counts = Counts()
    step = ending("step-1")
    assert await moves.one.commit(step, taken) == "committed"
    assert len(lost) == 2
    assert grown(counts) == [2, 1, 1]
    assert await moves.one.commit(step, taken) == "committed"
    assert grown(counts) == [2, 1, 1]


async def test_a_time_counts_to_the_commit_by_the_server_s_clock(moves: Moves, taken: Taken) -> None:
    begun = await moves.store.clock()
    step = commit()
    step.tallies.measure(metrics.turn_seconds.labels("completed"), begun - 5_000)
    step.tallies.measure(metrics.turn_seconds.labels("failed"), 0)
    counts = Counts()
    assert await moves.one.commit(step, taken) == "committed"
    seconds = counts.seconds(metrics.turn_seconds, outcome="completed")
    assert 5.0 <= seconds <= 5.0 + (await moves.store.clock() - begun) / 1000
    assert counts.observed(metrics.turn_seconds, outcome="failed") == 0, "a time that nobody knows is not observed"
