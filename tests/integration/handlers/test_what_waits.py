"""Messages that wait: counted until a step takes them in, taken in by pieces, ended with their turn."""

import asyncio
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.actors.actors import TASK_MESSAGES
from pentad.shared.actors.mail import UserMail
from pentad.shared.keys import TaskKeys, load
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import wait_until

ECHO = ("echo", '{"text":"x"}')


def answers(_: ChatRequest) -> Any:
    return answer("done")


async def waiting(store: Store) -> dict[str, int]:
    raw = await store.call("HGETALL", load(0))
    return {name.decode(): int(value) for name, value in zip(raw[::2], raw[1::2], strict=True)}


async def post(flow: Flow, task: TaskKeys, count: int) -> None:
    """So many messages more to a task, counted as the ingress counts them."""
    for number in range(count):
        message = InboundMessage(content=f"more {number}", session_id="s1", message_id=f"more-{number}")
        mail = UserMail(message=message, entry_id="1-1", at="2026-01-01T00:00:00.000Z")
        await flow.actors.post(task, "user", mail.to_json(), ("active", "waiting"))
    await flow.store.call("HINCRBY", load(0), "mail", count)
    await flow.store.call("HINCRBY", load(0), "tenant:default", count)


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in events if event["type"] in kinds]


async def contents(store: Store, task: TaskKeys) -> list[str]:
    log = [from_json(raw.split(b"\n", 1)[1]) for raw in await store.call("LRANGE", task.log, 0, -1)]
    return [message["content"] for message in log if message["role"] == "user"]


async def test_a_message_counts_until_a_step_has_taken_it_in(store: Store, tmp_path: Path) -> None:
    """Back-pressure sees tasks: with no task-runner alive, routed messages wait all the same."""
    flow = await Flow(store, tmp_path, answers).prepare()
    runner = flow._served.pop(1)
    for _ in range(3):
        await flow.say("hello")
    await flow.drive()
    assert await waiting(store) == {"mail": 3, "tenant:default": 3}
    flow._served.append(runner)
    await flow.drive()
    assert await waiting(store) == {"mail": 0}


async def test_a_refused_message_waits_no_more(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answers).prepare()
    await flow.say("hello", task_id="task-0-unknown")
    await flow.drive()
    assert await waiting(store) == {"mail": 0}


async def test_a_message_of_a_task_that_cannot_be_worked_with_waits_no_more(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answers, pentad_max_attempts=1).prepare()
    runner = flow._served.pop(1)
    await flow.say("hello")
    await flow.drive()
    await store.call("HSET", (await flow.task()).header, "turn_tokens", "junk")
    flow._served.append(runner)
    await flow.drive()
    assert [e["reason"] for e in await told(store, "task_end")] == ["internal"]
    assert await waiting(store) == {"mail": 0}


async def test_a_cancel_ends_first_and_drains_what_waits_afterwards(store: Store, tmp_path: Path) -> None:
    """However many messages wait: the first handling ends the task, and none of them begins a turn of its own."""
    flow = await Flow(store, tmp_path, answers, pause_s=0).prepare()
    served = flow._served.pop(1)
    await flow.say("hello")
    await flow.drive()
    task, count = await flow.task(), 3 * TASK_MESSAGES
    await post(flow, task, count)
    await flow.actors.post(task, "cancel", b"{}", ("active",), "cancel")
    flow._served.append(served)
    await flow.once()
    assert [e["status"] for e in await told(store, "task_end")] == ["cancelled"]
    assert await store.call("ZCARD", task.messages) == count + 1 - TASK_MESSAGES
    await flow.drive()
    assert flow.model.asked == 0
    assert await contents(store, task) == ["hello", *(f"more {n}" for n in range(count))]
    assert (await waiting(store), await flow.status()) == ({"mail": 0}, "cancelled")
    assert len(await told(store, "task_start", "task_end")) == 2


async def test_a_task_that_is_opened_again_before_it_is_drained_works_on_what_is_new_alone(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, answers).prepare()
    served = flow._served.pop(1)
    await flow.say("hello")
    await flow.drive()
    task = await flow.task()
    await post(flow, task, 2 * TASK_MESSAGES)
    await store.call("HSET", task.header, "deadline", 1)
    flow._served.append(served)
    await flow.once()
    assert await flow.status() == "failed"
    await flow.say("go on", task_id=task.task)
    await flow.drive()
    assert (flow.model.asked, await flow.status()) == (1, "completed")
    assert (await contents(store, task))[-1] == "go on"
    assert len(await contents(store, task)) == 2 * TASK_MESSAGES + 2


async def test_an_answer_that_a_message_overtakes_is_among_the_sessions_messages(store: Store, tmp_path: Path) -> None:
    """It was said, so a page that draws itself again shows it, and the next task knows it."""
    flow = await Flow(store, tmp_path, lambda r: answer(f"answer {len(r.messages)}"), pause_s=0.3).prepare()
    await flow.say("first")
    working = asyncio.create_task(flow.drive())
    await wait_until("the model to be asked", lambda: flow.model.asked == 1)
    await post(flow, await flow.task(), 1)
    await working
    turns = [from_json(raw)["content"] for raw in await store.call("LRANGE", SESSION.turns, 0, -1)]
    assert turns == ["first", "answer 2", "answer 4"]
    assert len(await told(store, "task_end")) == 1


async def test_a_tool_is_told_who_spoke_last_not_who_began_the_task(store: Store, tmp_path: Path) -> None:
    def script(request: ChatRequest) -> Any:
        return answer("", ECHO) if b'"user"' in request.messages[-1] else answer("done")

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("one", user_id="alice")
    await flow.drive()
    await flow.say("two", user_id="bob")
    await flow.drive()
    await flow.say("three")
    await flow.drive()
    calls = await store.call("XRANGE", TOOL_CALLS.key(0, queue="default"), "-", "+")
    assert [from_json(fields[1]).get("user_id") for _, fields in calls] == ["alice", "bob", None]
