"""Tasks and messages that once hung, were set aside or were told a lie, each by the narrow way that led there."""

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.streams import SESSION_WAKE
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.shared.actors.session_header import recent_field
from pentad.shared.models.ports import ChatRequest, ModelRefused
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.consumer import Consumer
from tests.integration.actors.moves import TASK, Moves
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.integration.tool_worker.test_calls import GROUP, QUEUE, queued, release
from tests.support.waiting import PATIENCE_S, wait_until

CALLS = 100
ECHO = ("echo", json.dumps({"text": "x"}))


async def events(store: Store, *kinds: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [e for e in found if e["type"] in kinds]


async def begin(moves: Moves, entry: str, owner: str, consumer: str) -> list[Any]:
    args: list[Argument] = ["c1", owner, "unsafe", entry, GROUP, 20, consumer]
    verdict: list[Any] = await moves.store.run("call_start", [TASK.calls, QUEUE], args)
    return verdict


async def dead(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", "pentad:{0}:dead", "-", "+")]


async def test_a_step_with_more_results_than_one_reading_of_a_mailbox_goes_on(store: Store, tmp_path: Path) -> None:
    def script(request: ChatRequest) -> Any:
        return answer("done") if b'"tool"' in request.messages[-1] else answer("", *[ECHO] * CALLS)

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("go")
    await asyncio.wait_for(flow.drive(), PATIENCE_S)
    assert len(await events(store, "tool_result")) == CALLS
    assert await flow.status() == "completed"


async def test_messages_before_a_result_do_not_hide_it(store: Store, tmp_path: Path) -> None:
    def script(request: ChatRequest) -> Any:
        return answer("", ECHO) if len(request.messages) == 2 else answer("done")

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("go")
    tools = flow._served.pop()
    await flow.drive()
    for n in range(CALLS):
        await flow.say(f"and {n}")
    await flow.drive()
    flow._served.append(tools)
    await asyncio.wait_for(flow.drive(), PATIENCE_S)
    assert await flow.status() == "completed"
    assert flow.model.asked == 2


async def test_a_deadline_at_the_end_of_time_is_one_that_does_not_come(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("ok")).prepare()
    await flow.say("hi", deadline="9999-12-31T23:59:59.999Z")
    await flow.drive()
    assert await flow.status() == "completed"


async def test_the_oldest_time_is_a_deadline_too(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("ok")).prepare()
    await flow.say("hi", deadline="1970-01-01T00:00:00Z")
    await flow.drive()
    assert [e["code"] for e in await events(store, "error")] == ["deadline_exceeded"]


async def test_mail_that_cannot_be_read_ends_its_task_visibly_and_the_next_message_is_answered(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(
        store, tmp_path, lambda _: answer("ok", ECHO) if flow.model.asked == 1 else answer("ok")
    ).prepare()
    tools = flow._served.pop()
    await flow.say("hi")
    await flow.drive()
    task = await flow.task()
    await flow.actors.post(task, "user", b"not JSON", ("active",))
    await flow.drive()
    (end,) = await events(store, "task_end")
    assert (end["status"], end["reason"]) == ("failed", "internal")
    assert len(await events(store, "tool_result")) == 1
    assert len(await dead(store)) == 1
    flow._served.append(tools)
    await flow.say("still there?", task_id=task.task)
    await flow.drive()
    assert await flow.status() == "completed"


async def test_a_record_store_that_is_down_is_no_start_of_the_message(store: Store, tmp_path: Path) -> None:
    (tmp_path / "records").write_text("in the way of a folder")
    flow = await Flow(store, tmp_path, lambda _: answer("ok")).prepare()
    router = Consumer(store, SESSION_WAKE, SESSION_WAKE.key(0), 0, "r", flow._served[0][2], 8, 500)
    beat = asyncio.create_task(flow.keeper.run())
    await router.start()
    await flow.say("hi", task_id="task-0-abc")

    async def tried(times: int) -> bool:
        return int(await store.call("HGET", SESSION.header, "token") or 0) >= times

    await wait_until("several tries", lambda: tried(4))
    assert int(await store.call("HGET", SESSION.header, "starts")) <= 1
    (tmp_path / "records").unlink()
    await wait_until("the refusal", lambda: events(store, "message_routed"))
    assert [e["code"] for e in await events(store, "error")] == ["unknown_task"]
    await router.stop_reading()
    await router.drain()
    beat.cancel()
    await asyncio.gather(beat, return_exceptions=True)


async def test_a_step_that_is_taken_while_the_runner_stops_is_handed_back(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("ok")).prepare()
    await flow.say("hi")
    runner = flow._served[1][2]
    assert isinstance(runner, RunnerHandler)
    runner.interrupt()
    await flow.once()
    assert flow.model.asked == 0
    header = dict(zip(*[iter(await store.call("HGETALL", (await flow.task()).header))] * 2, strict=True))
    assert (header[b"starts"], header[b"exp"]) == (b"0", b"0")
    assert header[b"wake"]


async def test_messages_that_a_failed_turn_left_keep_their_task_the_live_one(store: Store, tmp_path: Path) -> None:
    def script(request: ChatRequest) -> Any:
        if flow.model.asked == 1:
            raise ModelRefused("no")
        return answer("", ECHO)

    flow = await Flow(store, tmp_path, script, pause_s=0.3).prepare()
    flow._served.pop()  # no tool answers
    await flow.say("first")
    step = asyncio.create_task(flow.drive())
    await wait_until("the model to be asked", lambda: flow.model.asked)
    await flow.say("second")
    stepping = flow._served.pop()
    await flow.drive()
    flow._served.append(stepping)
    await step
    task = await flow.task()
    assert [e["type"] for e in await events(store, "task_start", "task_end")] == [
        "task_start",
        "task_end",
        "task_start",
    ]
    assert await store.call("HEXISTS", SESSION.header, recent_field(task.task))


async def test_a_worker_that_was_slow_to_begin_leaves_a_call_that_went_to_another_alone(moves: Moves) -> None:
    entry = await queued(moves)
    await moves.store.call("XCLAIM", QUEUE, GROUP, "two", 0, entry)
    assert await begin(moves, entry, "b", "two") == [b"run", 1]
    assert await begin(moves, entry, "a", "one") == [b"taken"]
    assert await moves.store.call("HGET", TASK.calls, "c1") == b"started b 1"


async def test_handing_back_twice_makes_one_copy(moves: Moves) -> None:
    entry = await queued(moves)
    assert [await release(moves, entry, "a", "pure") for _ in range(2)] == ["ok", "gone"]
    assert await moves.unread(QUEUE, GROUP) == 1
