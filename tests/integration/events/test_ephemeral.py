"""Law 14 for what is written outside of commits: a stream that ran out and comes back has an end again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import Content
from pentad.contracts.tools import Effect
from pentad.services.task_runner.delta_writer import DeltaWriter
from pentad.services.tool_worker.handlers import Progress
from pentad.shared.actors.leases import LeaseKeeper
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.store.store import Store
from tests.integration.actors.moves import TASK, Moves, commit
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S, wait_until

TTL_S = 50


async def ttl(store: Store) -> int:
    """Seconds; -1 for a stream without an end, -2 for none."""
    seconds: int = await store.call("TTL", SESSION.events)
    return seconds


@pytest.fixture
def events(store: Store) -> EphemeralEvents:
    return EphemeralEvents(store, SESSION, 100, TTL_S)


def writer(events: EphemeralEvents) -> DeltaWriter:
    head: dict[str, object] = {"event_id": "e", "task_id": "t", "step": 1, "attempt": 1}
    return DeltaWriter(events, SESSION, head, 1, lambda: None)


async def test_a_delta_that_makes_the_stream_anew_gives_it_an_end(store: Store, events: EphemeralEvents) -> None:
    writer(events).add("content", "a")
    await wait_until("the delta", lambda: store.call("XLEN", SESSION.events))
    assert 0 < await ttl(store) <= TTL_S


async def test_an_answer_that_comes_whole_travels_with_its_commit_alone(store: Store, events: EphemeralEvents) -> None:
    deltas, step = writer(events), commit()
    for text in ("all", " of", " it"):
        deltas.add("content", text)
    await asyncio.sleep(0)  # the model's call ends, and whoever waits for it goes on
    deltas.finish(step)
    assert sum(word == "delta" for word in step.operations) == 1
    assert any(isinstance(word, bytes) and b'"content":"all of it"' in word for word in step.operations)
    for _ in range(10):
        await asyncio.sleep(0)
    assert await store.call("EXISTS", SESSION.events) == 0


async def test_a_stream_does_not_run_out_while_deltas_are_written(store: Store, events: EphemeralEvents) -> None:
    deltas = writer(events)

    async def written_again(times: int) -> bool:
        deltas.add("content", "a")
        return bool(await store.call("XLEN", SESSION.events) > times and await ttl(store) > 20)

    deltas.add("content", "a")
    await store.call("EXPIRE", SESSION.events, 20)
    await wait_until("the end to be put off", lambda: written_again(1))
    deltas.stop()


async def test_nothing_is_written_over_a_new_connection_before_the_lease_is_known_to_be_ours_on_it(
    moves: Moves,
) -> None:
    """It may lead to a server that has lost the lease and given the attempt's number to another."""
    await moves.mail()
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    keeper = LeaseKeeper(moves.one)
    with keeper.hold(TASK, taken.lease) as held:
        events = EphemeralEvents(moves.store, SESSION, 100, TTL_S, lambda: held.sure)
        events.append(Content, b"{}")
        assert await moves.store.call("XLEN", SESSION.events) == 1
        await moves.store._wire.close()
        await moves.store.call("PING")
        events.append(Content, b"{}")
        assert await moves.store.call("XLEN", SESSION.events) == 1
        await keeper._beat(held)
        events.append(Content, b"{}")
        assert await moves.store.call("XLEN", SESSION.events) == 2


async def test_after_a_flush_the_last_deltas_of_a_lost_step_leave_a_stream_with_an_end(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("late"), pause_s=600).prepare()
    await flow.say("hi")
    step = asyncio.create_task(flow.drive())
    await wait_until("the model to be asked", lambda: flow.model.asked)
    await store.call("FLUSHALL")
    flow.model.say("and more")
    await wait_until("the delta", lambda: store.call("EXISTS", SESSION.events))
    beat = asyncio.create_task(flow.keeper.run())
    await asyncio.wait({step}, timeout=PATIENCE_S)
    beat.cancel()
    await asyncio.gather(beat, step, return_exceptions=True)
    assert await ttl(store) > 0


async def test_a_tools_progress_gives_its_stream_an_end(store: Store, events: EphemeralEvents) -> None:
    given: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1", "timeout": 5}
    given |= {"tool_call_id": "c", "step": 1, "tool": "odd", "args": {}, "effect": Effect.PURE}
    Progress(events, ToolCallCommand(**given), 0)("half", 0.5)
    assert 0 < await ttl(store) <= TTL_S
