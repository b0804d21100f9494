"""A cancel that crosses the end of its turn is over with it: it does not end the next turn nor hide the next cancel."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.shared.models.ports import ChatRequest, ModelRefused
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S, wait_until

LIVE = ("pending", "active", "waiting", "stale")


async def ends(store: Store) -> list[str]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event["status"] for event in found if event["type"] == "task_end"]


async def cancel(flow: Flow) -> str:
    """The status that the task had when it was asked to stop."""
    return await flow.actors.post(await flow.task(), "cancel", b"{}", LIVE, "cancel")


async def asked(flow: Flow) -> "asyncio.Task[int]":
    """A step whose model is being asked; nobody beats, so that nothing interrupts it."""
    router, runner, tools = flow._served
    flow._served[:] = [router]
    await flow.say("go")
    await flow.once()
    flow._served[:] = [runner]
    before = flow.model.asked
    step = asyncio.create_task(flow.once())
    await wait_until("the model to be asked", lambda: flow.model.asked > before)
    flow._served[:] = [router, runner, tools]
    return step


async def crossed(store: Store, folder: Path) -> Flow:
    """A turn that completed although it was asked to stop a moment before."""
    flow = await Flow(store, folder, lambda _: answer("done"), pause_s=0.1).prepare()
    step = await asked(flow)
    assert await cancel(flow) == "active"
    await step
    assert await ends(store) == ["completed"]
    return flow


async def test_it_does_not_end_the_turn_that_reopens_the_task(store: Store, tmp_path: Path) -> None:
    flow = await crossed(store, tmp_path)
    await flow.say("and now?")
    await flow.drive()
    assert await ends(store) == ["completed", "completed"]
    assert flow.model.asked == 2


async def test_it_leaves_nothing_to_do(store: Store, tmp_path: Path) -> None:
    flow = await crossed(store, tmp_path)
    task = await flow.task()
    assert await store.call("EXISTS", task.signals) == 0
    assert await store.call("HMGET", task.header, "wake", "control") == [b"", None]


async def test_the_next_cancel_is_heard(store: Store, tmp_path: Path) -> None:
    flow = await crossed(store, tmp_path)
    flow.model.pause_s = 600
    step = await asked(flow)
    assert await cancel(flow) == "active"
    beat = asyncio.create_task(flow.keeper.run())
    await asyncio.wait_for(step, PATIENCE_S)
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)
    assert await ends(store) == ["completed", "cancelled"]


async def test_after_the_end_it_is_told_so_and_leaves_nothing(store: Store, tmp_path: Path) -> None:
    flow = await crossed(store, tmp_path)
    assert await cancel(flow) == "completed"
    task = await flow.task()
    assert (await store.call("EXISTS", task.signals), await store.call("HGET", task.header, "control")) == (0, None)


async def test_a_turn_that_fails_behind_it_is_cancelled_with_the_messages_that_wait(
    store: Store, tmp_path: Path
) -> None:
    def script(_: ChatRequest) -> Any:
        if flow.model.asked == 1:
            raise ModelRefused("no")
        return answer("unwanted")

    flow = await Flow(store, tmp_path, script, pause_s=0.1).prepare()
    step = await asked(flow)
    router, *others = flow._served
    flow._served[:] = [router]
    await flow.say("and another thing")
    await flow.once()
    assert await cancel(flow) == "active"
    await step
    flow._served[:] = [router, *others]
    await flow.drive()
    assert (await ends(store), flow.model.asked) == (["cancelled"], 1)
