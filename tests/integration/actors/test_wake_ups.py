"""No actor stays without a wake-up while it has mail: a wake-up that goes away, by whatever way, is not the last."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.streams import DEAD, SESSION_WAKE, TASK_WAKE, Stream
from pentad.shared import metrics
from pentad.shared.keys import TaskKeys
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.housekeeping import Housekeeping
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.counting import Counts
from tests.support.waiting import wait_until

LEASE_MS = 200


def script(_: ChatRequest) -> Any:
    return answer("done")


async def told(store: Store, kind: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] == kind]


async def letters(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", DEAD.key(0), "-", "+")]


async def made(store: Store, folder: Path) -> Flow:
    flow = await Flow(store, folder, script, pentad_max_attempts=1).prepare()
    flow.actors.lease_ms = LEASE_MS
    return flow


@asynccontextmanager
async def serving(flow: Flow, *streams: Stream, lease_ms: int = LEASE_MS) -> AsyncIterator[None]:
    """These streams are consumed, with all that a consumer does for its handler."""
    consumers = [
        Consumer(flow.store, stream, key, 0, "flow", handler, 8, lease_ms)
        for stream, key, handler in flow._served
        if stream in streams
    ]
    for consumer in consumers:
        await consumer.start()
    yield
    await asyncio.gather(*(c.stop_reading() for c in consumers))
    await asyncio.gather(*(c.drain() for c in consumers))


async def current(store: Store, header: str) -> str:
    return (await store.call("HGET", header, "wake") or b"").decode()


def unreadable(entry: bytes) -> bytes:
    """A wake-up as a later version may write it."""
    return entry.replace(b'"version":1', b'"version":2')


async def rewritten(store: Store, header: str, key: str, change: Callable[[bytes], bytes]) -> None:
    """The actor's wake-up is another's writing."""
    old = await current(store, header)
    ((_, fields),) = await store.call("XRANGE", key, old, old)
    await store.call("XDEL", key, old)
    new = await store.call("XADD", key, "*", "data", change(fields[1]))
    await store.call("HSET", header, "wake", new)


async def test_a_wake_up_that_nobody_can_read_is_set_aside_and_its_actor_is_woken_all_the_same(
    store: Store, tmp_path: Path
) -> None:
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await rewritten(store, SESSION.header, SESSION_WAKE.key(0), unreadable)
    counts = Counts()
    async with serving(flow, SESSION_WAKE):
        await wait_until("the message to be routed", lambda: told(store, "message_routed"))
    task = await flow.task()
    await rewritten(store, task.header, TASK_WAKE.key(0), unreadable)
    async with serving(flow, TASK_WAKE):
        await wait_until("the answer", lambda: told(store, "task_end"))
    assert [letter["stream"] for letter in await letters(store)] == [SESSION_WAKE.key(0), TASK_WAKE.key(0)]
    assert counts.of(metrics.dead) == 2


async def test_one_that_was_read_and_not_begun_and_cannot_be_read_is_no_end_either(
    store: Store, tmp_path: Path
) -> None:
    """At a stop it would be handed back."""
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await rewritten(store, SESSION.header, SESSION_WAKE.key(0), unreadable)
    await store.call("XREADGROUP", "GROUP", "router", "flow", "STREAMS", SESSION_WAKE.key(0), ">")
    async with serving(flow, SESSION_WAKE, lease_ms=600_000):
        pass
    assert len(await letters(store)) == 1
    await flow.drive()
    assert await flow.status() == "completed"


async def test_what_names_nobody_is_set_aside_alone(store: Store, tmp_path: Path) -> None:
    flow = await made(store, tmp_path)
    for foreign in (b"", b"[1]", b'{"actor":7}', b'{"actor":"default"}', b'{"actor":"default/nobody","version":9}'):
        await store.call("XADD", SESSION_WAKE.key(0), "*", "data", foreign)
    async with serving(flow, SESSION_WAKE):
        await wait_until("the dead letters", lambda: _is(store.call("XLEN", DEAD.key(0)), 5))
        assert await store.call("EXISTS", "pentad:{0}:session:default:nobody") == 0


async def _is(found: Awaitable[Any], wanted: Any) -> bool:
    return bool(await found == wanted)


async def test_a_task_whose_header_cannot_be_read_ends_visibly_and_is_answered_again(
    store: Store, tmp_path: Path
) -> None:
    """It could not even be ended: its open calls are named in the header."""
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await flow._served[0][2].handle((await _entries(store, SESSION_WAKE.key(0)))[0])
    task = await flow.task()
    await store.call("HSET", task.header, "open", "junk")
    async with serving(flow, TASK_WAKE):
        (end,) = await wait_until("the end", lambda: told(store, "task_end"))
    assert (end["status"], end["reason"]) == ("failed", "internal")
    assert len(await letters(store)) == 1
    await flow.say("and now?")
    await flow.drive()
    assert (await told(store, "task_end"))[-1]["status"] == "completed"


async def _entries(store: Store, key: str) -> list[Any]:
    from pentad.shared.work.entry import Entry

    await store.call("XREADGROUP", "GROUP", "router", "flow", "STREAMS", key, ">")
    return [Entry(key, i.decode(), fields[1]) for i, fields in await store.call("XRANGE", key, "-", "+")]


@pytest.mark.parametrize("box", ["messages", "signals"])
async def test_what_is_no_mail_ends_its_task_and_is_set_aside(store: Store, tmp_path: Path, box: str) -> None:
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await flow._served[0][2].handle((await _entries(store, SESSION_WAKE.key(0)))[0])
    task = await flow.task()
    await store.call("ZADD", getattr(task, box), 1, "rubbish")
    async with serving(flow, TASK_WAKE):
        (end,) = await wait_until("the end", lambda: told(store, "task_end"))
    (letter,) = await letters(store)
    assert (end["reason"], "rubbish" in letter["body"].values()) == ("internal", True)
    assert await store.call("EXISTS", task.messages, task.signals) == 0


async def test_what_is_no_message_of_a_session_is_set_aside_and_the_next_one_is_routed(
    store: Store, tmp_path: Path
) -> None:
    flow = await made(store, tmp_path)
    await store.call("ZADD", SESSION.messages, 0, "rubbish")
    await flow.say("hi")
    async with serving(flow, SESSION_WAKE):
        await wait_until("the message to be routed", lambda: told(store, "message_routed"))
    (letter,) = await letters(store)
    assert list(letter["body"].values()) == ["rubbish"]


async def test_an_actor_that_nobody_can_work_with_leaves_a_dead_letter_for_each_try_and_hears_its_next_mail(
    store: Store, tmp_path: Path
) -> None:
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await store.call("HSET", SESSION.header, "attempt", "junk")
    async with serving(flow, SESSION_WAKE):
        await wait_until("the dead letter", lambda: letters(store))
        assert await current(store, SESSION.header) == ""
        await store.call("HDEL", SESSION.header, "attempt")
        await flow.say("and now?")
        await wait_until("both to be routed", lambda: _routed(store, 2))


async def _routed(store: Store, count: int) -> bool:
    return len(await told(store, "message_routed")) == count


async def _deleted(store: Store, key: str, wake: str) -> None:
    await store.call("XDEL", key, wake)


async def _trimmed(store: Store, key: str, _: str) -> None:
    await store.call("XTRIM", key, "MAXLEN", 0)


async def _stream_deleted(store: Store, key: str, _: str) -> None:
    await store.call("DEL", key)


async def _read_then_deleted(store: Store, key: str, wake: str) -> None:
    await store.call("XREADGROUP", "GROUP", _group(key), "dead", "STREAMS", key, ">")
    await store.call("XDEL", key, wake)


async def _acknowledged(store: Store, key: str, wake: str) -> None:
    await store.call("XREADGROUP", "GROUP", _group(key), "dead", "STREAMS", key, ">")
    await store.call("XACK", key, _group(key), wake)


async def _consumer_deleted(store: Store, key: str, _: str) -> None:
    await store.call("XREADGROUP", "GROUP", _group(key), "dead", "STREAMS", key, ">")
    await store.call("XGROUP", "DELCONSUMER", key, _group(key), "dead")


async def _passed_over(store: Store, key: str, _: str) -> None:
    await store.call("XGROUP", "SETID", key, _group(key), "$")


def _group(key: str) -> str:
    return "router" if key == SESSION_WAKE.key(0) else "task-runner"


WAYS = [_deleted, _trimmed, _stream_deleted, _read_then_deleted, _acknowledged, _consumer_deleted, _passed_over]


@pytest.mark.parametrize("lose", WAYS, ids=lambda way: way.__name__)
async def test_an_actor_whose_wake_up_is_lost_is_given_a_new_one(
    store: Store, tmp_path: Path, lose: Callable[[Store, str, str], Awaitable[None]]
) -> None:
    flow = await made(store, tmp_path)
    await flow.say("hi")
    await lose(store, SESSION_WAKE.key(0), await current(store, SESSION.header))
    async with serving(flow, SESSION_WAKE):
        keeping = Housekeeping(store, [(SESSION_WAKE, SESSION_WAKE.key(0))], LEASE_MS)
        await _until(keeping, lambda: told(store, "message_routed"))
    task = await flow.task()
    await lose(store, TASK_WAKE.key(0), await current(store, task.header))
    async with serving(flow, TASK_WAKE):
        keeping = Housekeeping(store, [(TASK_WAKE, TASK_WAKE.key(0))], LEASE_MS)
        await _until(keeping, lambda: told(store, "task_end"))


async def _until(keeping: Housekeeping, ask: Callable[[], Awaitable[Any]]) -> None:
    async def once_more() -> Any:
        await keeping.once()
        return await ask()

    await wait_until("the work to be done", once_more)


async def test_a_wake_up_that_is_there_is_no_reason_for_another(store: Store, tmp_path: Path) -> None:
    flow = await made(store, tmp_path)
    keeping = Housekeeping(store, [(SESSION_WAKE, SESSION_WAKE.key(0)), (TASK_WAKE, TASK_WAKE.key(0))], LEASE_MS)
    await flow.say("unread")
    first = await current(store, SESSION.header)
    await keeping.once()
    await store.call("XREADGROUP", "GROUP", "router", "flow", "STREAMS", SESSION_WAKE.key(0), ">")
    await keeping.once()
    assert await current(store, SESSION.header) == first, "unread, then pending"
    await flow.actors.take(SESSION, first)
    await store.call("XDEL", SESSION_WAKE.key(0), first)
    flow.actors.lease_ms = 60_000
    await store.call("HSET", SESSION.header, "exp", await store.clock() + 30_000, "lease", 60_000)
    await keeping.once()
    assert await current(store, SESSION.header) == first, "it is being handled"
    assert await store.call("XLEN", SESSION_WAKE.key(0)) == 0


async def test_mail_that_waits_for_more_is_left_to_wait(store: Store, tmp_path: Path) -> None:
    """The first of two results lies in its box, and nothing wakes the task for it."""
    flow = await made(store, tmp_path)
    task = TaskKeys(0, "default", "task-0-a")
    await store.call("HSET", task.header, "status", "active", "wake", "")
    await store.call("ZADD", task.signals, 1, "1 result {}")
    await Housekeeping(store, [(TASK_WAKE, TASK_WAKE.key(0))], LEASE_MS).once()
    assert await store.call("XLEN", TASK_WAKE.key(0)) == 0
    assert flow.model.asked == 0
