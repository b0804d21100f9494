"""A message that a failed turn left over begins a turn of its own: under its own deadline and its own budget."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.ids import rfc3339
from pentad.shared.actors.session_header import recent_field
from pentad.shared.keys import timers
from pentad.shared.models.ports import ChatRequest, ModelRefused, ModelUnavailable
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S, wait_until

DEADLINE_MS = 1500
"""From before the first turn: it must not be over when the second begins, also on a machine that is busy."""


async def told(store: Store) -> list[tuple[str, str]]:
    """Starts, ends and states of the session's tasks, with their reasons."""
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    kinds = ("task_start", "task_end", "task_status")
    return [(event["type"], event.get("reason", "")) for event in found if event["type"] in kinds]


async def left_over(store: Store, folder: Path, then: Any, **second: Any) -> Flow:
    """A turn fails while a second message waits for the task, whose turn is not begun yet."""

    def script(_: ChatRequest) -> Any:
        if flow.model.asked == 1:
            raise ModelRefused("no")
        if isinstance(then, Exception):
            raise then
        return then

    flow = await Flow(store, folder, script, pause_s=0.1).prepare()
    await flow.say("first")
    router, runner, tools = flow._served
    flow._served[:] = [router]
    await flow.once()
    flow._served[:] = [runner]
    step = asyncio.create_task(flow.once())
    await wait_until("the model to be asked", lambda: flow.model.asked)
    flow._served[:] = [router]
    await flow.say("second", **second)
    await flow.once()
    await step
    flow._served[:] = [router, runner, tools]
    flow.model.pause_s = 0
    assert await told(store) == [("task_start", ""), ("task_end", "model_error")]
    return flow


@asynccontextmanager
async def clockwork(flow: Flow) -> AsyncIterator[None]:
    """Timers fire and leases are kept."""
    loops = [asyncio.create_task(loop) for loop in (flow.keeper.run(), TimerLoop(flow.store, [0]).run())]
    yield
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def test_it_is_answered(store: Store, tmp_path: Path) -> None:
    flow = await left_over(store, tmp_path, answer("yes"))
    await flow.drive()
    assert (await told(store))[2:] == [("task_start", ""), ("task_end", "answered")]
    assert [k.split()[0] for k in await store.call("ZRANGE", timers(0), 0, -1)] == [b"remember", b"archive"]


async def test_its_deadline_ends_it_when_it_has_passed(store: Store, tmp_path: Path) -> None:
    due = await store.clock() + DEADLINE_MS
    flow = await left_over(store, tmp_path, answer("late"), deadline=rfc3339(due))
    await wait_until("the deadline", lambda: _after(store, due))
    await flow.drive()
    assert (await told(store))[2:] == [("task_start", ""), ("task_end", "deadline_exceeded")]
    assert flow.model.asked == 1


async def _after(store: Store, ms: int) -> bool:
    return await store.clock() > ms


async def test_its_deadline_interrupts_the_model(store: Store, tmp_path: Path) -> None:
    flow = await left_over(store, tmp_path, answer("late"), deadline=rfc3339(await store.clock() + DEADLINE_MS))
    flow.model.pause_s = 600
    async with clockwork(flow):
        await asyncio.wait_for(flow.drive(), PATIENCE_S)
    assert (await told(store))[2:] == [("task_start", ""), ("task_end", "deadline_exceeded")]
    assert flow.model.asked == 2


async def test_its_deadline_ends_the_waiting_for_a_model_that_is_not_to_be_had(store: Store, tmp_path: Path) -> None:
    flow = await left_over(
        store, tmp_path, ModelUnavailable("busy", 30), deadline=rfc3339(await store.clock() + DEADLINE_MS)
    )

    async def over() -> bool:
        await flow.drive()
        return ("task_end", "deadline_exceeded") in await told(store)

    async with clockwork(flow):
        await wait_until("the end", over)
    assert [kind for kind, _ in (await told(store))[2:]] == ["task_start", "task_status", "task_end"]


async def test_a_budget_of_nothing_lets_nothing_be_spent(store: Store, tmp_path: Path) -> None:
    flow = await left_over(store, tmp_path, answer("spent"), budget={"steps": 0})
    await flow.drive()
    assert (await told(store))[2:] == [("task_start", ""), ("task_status", "budget_exceeded")]
    assert (await flow.status(), flow.model.asked) == ("waiting", 1)
    task = await flow.task()
    assert await store.call("HEXISTS", SESSION.header, recent_field(task.task))
