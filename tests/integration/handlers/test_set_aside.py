"""A tool call whose entry is set aside: its task is told at once and goes on, and the dead letter says what it was."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import wait_until

QUEUE = TOOL_CALLS.key(0, queue="default")
ECHO = ("echo", '{"text":"x"}')
Entry = dict[str, Any]


def calls_then_answers(request: ChatRequest) -> Any:
    return answer("done") if b'"tool"' in request.messages[-1] else answer("", ECHO)


async def told(store: Store, kind: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] == kind]


async def letters(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", "pentad:{0}:dead", "-", "+")]


async def asked(store: Store, folder: Path, change: Callable[[bytes], bytes] = bytes) -> Flow:
    """A task that waits for one call, whose entry was changed on its way."""
    flow = await Flow(store, folder, calls_then_answers).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    await flow.drive()
    ((entry_id, fields),) = await store.call("XRANGE", QUEUE, "-", "+")
    await store.call("XDEL", QUEUE, entry_id)
    await store.call("XADD", QUEUE, "*", "data", change(fields[1]))
    flow._served.append(tools)
    return flow


@asynccontextmanager
async def tool_worker(flow: Flow) -> AsyncIterator[None]:
    """The calls' queue is consumed, with all that a consumer does for its handler."""
    handler: Any = flow._served.pop()[2]
    handler.consumer = Consumer(flow.store, TOOL_CALLS, QUEUE, 0, "flow", handler, 8, 200)
    await handler.consumer.start()
    yield
    await handler.consumer.stop_reading()
    await handler.consumer.drain()


def _with(**fields: Any) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps(json.loads(raw) | fields).encode()


def _without(*names: str) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps({k: v for k, v in json.loads(raw).items() if k not in names}).encode()


def _cut(raw: bytes) -> bytes:
    return raw[: raw.index(b'"args"') + 9]


READABLE = {
    "another version": _with(version=2),
    "a missing field": _without("effect", "event_id"),
    "a wrong type": _with(timeout="soon"),
    "cut off": _cut,
    "bytes that are no text": lambda raw: raw.replace(b'"echo"', b'"\xff\x00"'),
    "no session": _without("session_id"),
}
NOT_READABLE = {
    "nothing": lambda _: b"",
    "no object": lambda _: b'"tool_call_id"',
    "no call": _without("tool_call_id"),
    "a call that is none": _with(tool_call_id={"a": 1}, version=2),
    "another task": _with(task_id="task-0-other", version=2),
    "another tenant": _with(tenant_id="other", version=2),
    "a call of another time": _with(tool_call_id="call-0-other", version=2),
}  # fmt: skip


@pytest.mark.parametrize("change", READABLE.values(), ids=READABLE.keys())
async def test_a_call_that_can_be_named_is_closed_with_the_reason_and_its_task_goes_on(
    store: Store, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    flow = await asked(store, tmp_path, change)
    task = await flow.task()
    async with tool_worker(flow):
        await wait_until("the dead letter", lambda: letters(store))
    await flow.drive()
    (call,), (result,), (letter,) = (
        await told(store, "tool_call"),
        await told(store, "tool_result"),
        await letters(store),
    )
    assert (result["tool_call_id"], result["tool"]) == (call["tool_call_id"], "echo")
    assert letter["reason"] in result["error"]
    assert [link["id"] for link in letter["chain"]] == ["u1", task.task, call["tool_call_id"]]
    assert (await flow.status(), flow.model.asked) == ("completed", 2)
    assert await store.call("EXISTS", task.calls) == 0


@pytest.mark.parametrize("change", NOT_READABLE.values(), ids=NOT_READABLE.keys())
async def test_a_call_that_cannot_be_named_leaves_a_dead_letter_and_stays_open(
    store: Store, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    flow = await asked(store, tmp_path, change)
    async with tool_worker(flow):
        await wait_until("the dead letter", lambda: letters(store))
    assert await told(store, "tool_result") == []
    assert await store.call("HLEN", (await flow.task()).calls) == 1


async def test_a_call_that_its_handler_cannot_work_with_is_closed_with_the_last_error(
    store: Store, tmp_path: Path
) -> None:
    flow = await asked(store, tmp_path, _with(effect="idempotent"))
    task = await flow.task()
    (call,) = await told(store, "tool_call")
    await store.call("HSET", task.calls, call["tool_call_id"], "junk")
    async with tool_worker(flow):
        await wait_until("the result", lambda: told(store, "tool_result"))
    await flow.drive()
    (letter,) = await letters(store)
    assert letter["attempts"] == 5
    assert await flow.status() == "completed"


async def test_of_a_started_call_that_is_set_aside_nobody_says_that_it_did_not_run(
    store: Store, tmp_path: Path
) -> None:
    flow = await asked(store, tmp_path, _with(version=2))
    (call,) = await told(store, "tool_call")
    await store.call("HSET", (await flow.task()).calls, call["tool_call_id"], "started somebody 1")
    async with tool_worker(flow):
        (result,) = await wait_until("the result", lambda: told(store, "tool_result"))
    assert result["error"].startswith("outcome unknown")


async def test_a_task_whose_header_cannot_be_read_gets_the_dead_letter_at_least(store: Store, tmp_path: Path) -> None:
    flow = await asked(store, tmp_path, _with(version=2))
    await store.call("HSET", (await flow.task()).header, "open", "junk")
    async with tool_worker(flow):
        await wait_until("the dead letter", lambda: letters(store))
    assert await told(store, "tool_result") == []
