"""Chapter 4: nothing that you send ends in silence."""

import asyncio

import pytest

import pentad
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import MessageEvent, MessageRouted
from tests.fundamentals.conftest import Running
from tests.support.redis.raw_redis import dead_letters, events_of, publish
from tests.support.waiting import wait_until


async def test_a_poison_message_is_set_aside_and_the_stream_goes_on(running: Running) -> None:
    # No content: it can never be read, and trying again would not help.
    poison, _ = await publish(
        running.redis_url, {"session_id": "poisoned"}, {"session_id": "poisoned", "content": "what is 6*7?"}
    )

    async def answered() -> list[dict[str, object]]:
        events = await events_of(running.redis_url, "poisoned")
        return events if any(event["type"] == "message" for event in events) else []

    events = await wait_until("the message behind it to be answered", answered)

    # Whoever follows the session is told, by the message's id; that is the entry's when it has none of its own.
    assert (events[0]["type"], events[0]["code"], events[0]["message_id"]) == ("error", "bad_message", poison)
    # And it is kept, with the reason, for a person to look at.
    letter = next(found for found in await dead_letters(running.redis_url) if found["entry_id"] == poison)
    assert letter["reason"] == "content: Field required"


async def test_a_message_for_a_task_that_is_not_there_is_refused(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("go on", task_id="task-0-long-ago")]

    assert isinstance(events[0], MessageRouted)
    assert events[0].decision == "rejected"
    assert "task-0-long-ago" in events[0].reason


async def test_why_is_in_the_error(running: Running) -> None:
    await publish(running.redis_url, {"content": "go", "session_id": "singers", "instruction": "sing"})

    async def errors() -> list[dict[str, object]]:
        return [e for e in await events_of(running.redis_url, "singers") if e["type"] == "error"]

    (error,) = await wait_until("the error", errors)
    assert error["code"] == ErrorCode.BAD_MESSAGE
    assert "executor" in str(error["message"]), "it names what there is"


async def test_a_message_sent_twice_is_one_message(agent: pentad.Agent) -> None:
    async def send() -> list[str]:
        events = [event async for event in agent.send("what is 6*7?", message_id="order-4711")]
        return [event.content for event in events if isinstance(event, MessageEvent)]

    # Your process died and does not know whether its message arrived? Send it again, with the same id.
    first, second = await asyncio.gather(send(), send())

    assert first == second == ["6*7 = 42"]
    (task,) = await agent.inspection.tasks(session_id=agent.session_id)
    transcript = await agent.inspection.transcript(task.task_id)
    assert [message["role"] for message in transcript.messages].count("user") == 1


async def test_an_error_of_the_client_is_one_line_that_says_what_to_do() -> None:
    async with pentad.connect("http://127.0.0.1:1") as nobody:
        with pytest.raises(pentad.GatewayUnreachable, match="start it with `make run`"):
            [event async for event in nobody.send("hello?")]
