"""Ways in: a raw XADD is as good as the WebSocket, and a message that is sent again is still one message."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.clients.api import Api
from tests.support.clients.line import Event
from tests.support.models.model_server import take_a_turn
from tests.support.models.replies import say
from tests.support.processes.stage import Stage, new_session
from tests.support.redis.raw_redis import dead_letters, events_of, publish
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

_OF_ITS_OWN = frozenset(
    "id event_id at session_id task_id message_id correlation_id causation_id tool_call_id duration_ms".split()
)
"""Ids and times: they differ from turn to turn."""


def shape(events: Sequence[Event]) -> list[Event]:
    """Events apart from ids and times; neighbouring deltas joined, as when they were written is a matter of time."""
    shaped: list[Event] = []
    for event in events:
        plain = {name: "..." if name in _OF_ITS_OWN else value for name, value in event.items()}
        last = shaped[-1] if shaped else {}
        if plain["type"] in ("content", "thinking") and last.get("type") == plain["type"]:
            last["content"] += plain["content"]
        else:
            shaped.append(plain)
    return shaped


async def ended(stage: Stage, session: str, tenant: str = "default", count: int = 1) -> list[Event]:
    """The session's events on the stream, once so many tasks have ended."""

    async def enough() -> list[Event]:
        events = await events_of(stage.redis_url, session, tenant)
        return events if sum(e["type"] == "task_end" for e in events) >= count else []

    return await wait_until(f"{count} task_end in {session}", enough)


async def test_a_raw_xadd_gives_the_events_that_the_websocket_gives(pentad_up: Stage) -> None:
    script = take_a_turn(say("it is 42, I think", thinking="let me see", chunks=3))
    async with pentad_up.model(script), pentad_up.line() as said, pentad_up.line() as written:
        await said.turn("what is 6*7?", message_id="m-1")
        await publish(
            pentad_up.redis_url, {"content": "what is 6*7?", "session_id": written.session, "message_id": "m-1"}
        )
        await written.until("task_end")
        on_stream = await events_of(pentad_up.redis_url, written.session)
    print(f"both ways: {dict(Counter(e['type'] for e in written.events))}")
    assert shape(written.events) == shape(said.events)
    assert written.events == on_stream
    kinds = ["message_routed", "task_start", "tool_call", "tool_result", "thinking", "content", "message", "task_end"]
    assert [e["type"] for e in shape(written.events)] == kinds


async def test_messages_in_one_pipeline_are_all_taken_in_order(pentad_up: Stage) -> None:
    session = new_session()
    bodies = [{"content": f"message {n}", "session_id": session} for n in range(20)]
    async with pentad_up.model(lambda _: say("yes")), pentad_up.api() as api:
        ids = await publish(pentad_up.redis_url, *bodies)
        events = await wait_until("the last to be answered", lambda: _answered(api, pentad_up, session, 20))
        transcript = await api.transcript(events[-1]["task_id"])
    assert [e["message_id"] for e in events if e["type"] == "message_routed"] == ids
    assert [m["content"] for m in transcript if m["role"] == "user"] == [b["content"] for b in bodies]


async def _answered(api: Api, stage: Stage, session: str, count: int) -> list[Event]:
    """The events, once the session's task has ended with so many user messages in it."""
    events = await events_of(stage.redis_url, session)
    if not events or events[-1]["type"] != "task_end":
        return []
    transcript = await api.transcript(events[-1]["task_id"])
    if sum(m["role"] == "user" for m in transcript) < count:
        return []
    events = await events_of(stage.redis_url, session)  # the last may have come since the first reading
    return events if events[-1]["type"] == "task_end" else []


async def test_a_message_without_a_session_gets_one_named_after_its_entry(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda _: say("hello")):
        (entry,) = await publish(pentad_up.redis_url, {"content": "hi"})
        events = await ended(pentad_up, f"s-{entry}")
    routed = events[0]
    assert (routed["type"], routed["message_id"], routed["decision"]) == ("message_routed", entry, "new")
    assert events[-1]["status"] == "completed"


async def test_every_optional_field_is_taken(pentad_up: Stage) -> None:
    session = new_session()
    async with pentad_up.model(lambda _: say("yes")), pentad_up.api() as api:
        message = {
            "content": "hi",
            "session_id": session,
            "message_id": "all.fields~1@x",
            "user_id": "ada",
            "tenant_id": "default",
            "instruction": "executor",
            "metadata": {"channel": "mail", "lang": "fr"},
            "deadline": "2100-01-31T12:00:00+01:00",
            "budget": {"tokens": 100_000, "usd": 1.5, "steps": 5},
        }
        await publish(pentad_up.redis_url, message)
        first = await ended(pentad_up, session)
        task_id = first[0]["task_id"]
        again = {"content": "once more", "session_id": session, "task_id": task_id, "user_id": "ada"}
        await publish(pentad_up.redis_url, again)
        events = await ended(pentad_up, session, count=2)
        task = await api.get(f"/v1/tasks/{task_id}")
    routed = [e for e in events if e["type"] == "message_routed"]
    print(f"task: {json.dumps(task)}")
    assert [e["type"] for e in first] == ["message_routed", "task_start", "content", "message", "task_end"]
    assert routed[0]["message_id"] == "all.fields~1@x"
    assert [(e["decision"], e["task_id"]) for e in routed] == [("new", task_id), ("reopen", task_id)]
    assert (task["user_id"], task["instruction"], task["status"]) == ("ada", "executor", "completed")


async def test_another_tenants_session_of_the_same_name_is_a_separate_one(pentad_up: Stage) -> None:
    session = new_session()
    async with pentad_up.model(lambda _: say("yes")), pentad_up.api() as api:
        for tenant in ("default", "acme"):
            await publish(
                pentad_up.redis_url, {"content": f"I am {tenant}", "session_id": session, "tenant_id": tenant}
            )
        mine = await ended(pentad_up, session)
        theirs = await ended(pentad_up, session, "acme")
        await api.get(f"/v1/tasks/{mine[0]['task_id']}")
        await api.get(f"/v1/tasks/{theirs[0]['task_id']}", status=404)
    goals = [[e["goal"] for e in events if e["type"] == "task_start"] for events in (mine, theirs)]
    assert goals == [["I am default"], ["I am acme"]]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("not json", "json"),
        ('{"session_id":"SESSION"}', "content"),
        ('{"session_id":"SESSION","content":""}', "content"),
        ('{"session_id":"SESSION","content":"hi","budget":{"steps":"many"}}', "budget"),
        ('{"session_id":"SESSION","content":"hi","message_id":"no spaces"}', "message_id"),
    ],
)
async def test_what_cannot_be_read_is_set_aside_and_its_session_told(pentad_up: Stage, entry: str, reason: str) -> None:
    session = new_session()
    (entry_id,) = await publish(pentad_up.redis_url, entry.replace("SESSION", session))

    async def letter() -> Any:
        return next((d for d in await dead_letters(pentad_up.redis_url) if d["entry_id"] == entry_id), None)

    found = await wait_until("the dead letter", letter)
    told = await events_of(pentad_up.redis_url, session)
    print(f"{entry}: {found['reason']}")
    assert reason in found["reason"].lower()
    expected = [("error", "bad_message", entry_id)] if "SESSION" in entry else []
    assert [(e["type"], e["code"], e["message_id"]) for e in told] == expected


async def test_the_same_message_id_sent_five_times_is_one_message(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda _: say("once")) as model, pentad_up.line() as line, pentad_up.api() as api:
        body = {"session_id": line.session, "message_id": "same"}
        first = {"content": "the first body wins", **body}
        await publish(pentad_up.redis_url, first)
        await line.until("message_routed")
        xadd, ws, rest, waited = await asyncio.gather(
            publish(pentad_up.redis_url, first),
            line.say(first["content"], "same"),
            api.post("/v1/messages", first),
            api.post("/v1/messages?wait=20", first, status=200),
        )
        await api.post("/v1/messages", {**body, "content": "another text"}, status=409)
        # A message sent afterwards proves that the five before it have all been dealt with.
        await line.turn("the next", count=2)
        tasks = (await api.get(f"/v1/tasks?session_id={line.session}"))["items"]
        transcript = await api.transcript(tasks[0]["task_id"])
        seen = {"session_id": line.session, "message_id": "same"}
    users = [m["content"] for m in transcript if m["role"] == "user"]
    asked = [chat for chat in model.chats if first["content"] in str(chat["messages"])]  # not for other tests' tasks
    print(f"sent 5 times: entries {len(xadd) + 1} by XADD, users' messages {users}, model asked {len(asked)} times")
    assert users == ["the first body wins", "the next"]
    assert (ws, rest["message_id"], rest["session_id"]) == ("same", "same", line.session)
    assert {k: waited[k] for k in seen} == seen
    assert waited["answer"] == "once"
    assert line.answers("message_routed")[0]["message_id"] == "same"
    assert [len(line.answers("message_routed")), len(asked), len(tasks)] == [2, 2, 1]
