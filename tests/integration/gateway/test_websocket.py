"""What a WebSocket client is promised."""

import asyncio
import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.support.waiting import PATIENCE_S, in_time, wait_until


async def test_events_come_with_their_cursor_as_they_were_written(gateway: GatewayService, speaker: Speaker) -> None:
    async with opened(gateway.address) as client:
        entry = await speaker.say("task_start", goal="grüße \U0001f30d")
        event = await client.receive()
        assert event["id"] == entry
        assert (event["type"], event["goal"], event["task_id"]) == ("task_start", "grüße \U0001f30d", TASK)


async def test_the_first_frame_names_session_and_cursor(gateway: GatewayService, speaker: Speaker) -> None:
    async with opened(gateway.address, "") as client:
        assert client.session["session_id"].startswith("s-")
        assert client.session["cursor"] == "0-0"
    entry = await speaker.say("task_start", goal="g")
    async with opened(gateway.address) as client:
        assert client.session == {"type": "session", "session_id": "s1", "cursor": entry}


async def test_without_a_cursor_it_begins_with_what_comes_next(gateway: GatewayService, speaker: Speaker) -> None:
    await speaker.say("task_start", goal="before")
    async with opened(gateway.address) as client:
        await speaker.say("task_start", goal="after")
        assert (await client.receive())["goal"] == "after"


async def test_nothing_is_missed_or_repeated_across_a_reconnect(gateway: GatewayService, speaker: Speaker) -> None:
    wrote: list[str] = []

    async def write() -> None:
        wrote.extend([await speaker.say("task_start", goal=str(number)) for number in range(600)])

    seen: list[str] = []
    writing, cursor = asyncio.create_task(write()), "0"
    while len(seen) < 600:
        async with opened(gateway.address, f"session_id=s1&after={cursor}") as client:
            seen += [(await client.receive())["id"] for _ in range(min(97, 600 - len(seen)))]
            cursor = seen[-1]
    await writing
    assert seen == wrote


async def test_a_lost_ring_costs_time_and_no_event(gateway: GatewayService, speaker: Speaker) -> None:
    async with opened(gateway.address) as client:
        entry = await speaker.say("task_start", goal="g", ring=False)
        async with in_time():
            assert (await client.receive())["id"] == entry


async def test_messages_are_accepted_and_appended(gateway: GatewayService, store: Store) -> None:
    async with opened(gateway.address) as client:
        await client.send(type="message", content="hello", message_id="m1", tenant_id="evil", session_id="other")
        assert await client.receive() == {"type": "accepted", "message_id": "m1"}
        await client.send(type="message", content="again")
        accepted = await client.receive()
    entries = await store.call("XRANGE", INBOUND.key(), "-", "+")
    first, second = (json.loads(fields[1]) for _, fields in entries)
    assert (first["content"], first["tenant_id"], first["session_id"]) == ("hello", "default", "s1")
    assert first["message_id"] == "m1"
    assert second["message_id"] == accepted["message_id"], "so that it may be sent again"


async def test_another_text_under_an_accepted_id_is_an_error(gateway: GatewayService, store: Store) -> None:
    await store.call("SET", "pentad:{0}:seen:default:s1:m1", f"1-0 {message_digest(InboundMessage(content='hi'))}")
    async with opened(gateway.address) as client:
        await client.send(type="message", content="other", message_id="m1")
        error = await client.receive()
    assert (error["type"], error["code"], error["message_id"]) == ("error", "bad_message", "m1")
    assert message_digest(InboundMessage(content="other")) in error["message"]
    assert await store.call("XLEN", INBOUND.key()) == 0


@pytest.mark.parametrize(
    "frame",
    [
        "not json",
        "[]",
        '{"type":"message"}',
        '{"type":"message","content":""}',
        '{"type":"message","content":7}',
        '{"type":"message","content":"x","task_id":"a b"}',
        '{"type":"message","content":"\\ud800"}',
        '{"type":"dance"}',
        '{"type":["message"]}',
        '{"type":"pause","task_id":"a b"}',
        '{"type":"resume"}',
        '{"type":"cancel","task_id":7}',
        '{"a":' * 5000,
        b"\xff\xfe",
        '{"type":"message","content":"' + "x" * 65_537 + '"}',
        "x" * (1 << 20),
    ],
)
async def test_a_frame_that_cannot_be_read_is_answered_and_the_connection_stays(
    gateway: GatewayService, frame: str | bytes
) -> None:
    async with opened(gateway.address) as client:
        await client.connection.send(frame)
        answer = await client.receive()
        assert (answer["type"], answer["code"]) == ("error", "bad_message")
        await client.send(type="ping")
        assert await client.receive() == {"type": "pong"}


async def test_under_back_pressure_a_message_is_answered_by_busy_and_when_to_come_back(
    gateway: GatewayService, store: Store
) -> None:
    await store.call("HSET", "pentad:{0}:load", "mail", 10_000)
    async with opened(gateway.address) as client:
        await client.send(type="message", content="hello", message_id="m1")
        answer = await client.receive()
        assert (answer["type"], answer["code"], answer["message_id"]) == ("error", "busy", "m1")
        assert answer["retry_after"] > 0
        await client.send(type="ping")
        assert await client.receive() == {"type": "pong"}
    assert await store.call("XLEN", INBOUND.key()) == 0


async def test_a_frame_over_a_mebibyte_closes_with_1009(gateway: GatewayService) -> None:
    async with opened(gateway.address) as client:
        await client.connection.send("x" * ((1 << 20) + 1))
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_stopping_closes_with_1012(redis_url: str) -> None:
    async with running(redis_url) as service, opened(service.address) as client:
        await service.stop()
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012


async def test_a_reader_that_is_too_slow_is_told_to_come_back(gateway: GatewayService, speaker: Speaker) -> None:
    async with opened(gateway.address, max_queue=1) as client:
        text = "x" * 60_000
        for number in range(260):
            await speaker.say("message", step=number, attempt=1, content=text)
        steps: list[int] = []

        async def read() -> None:
            while True:
                steps.append((await client.receive())["step"])

        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(read(), PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013
        assert steps == list(range(len(steps)))
        assert len(steps) < 260


async def test_cancel_reaches_the_task_of_this_session_only(gateway: GatewayService, speaker: Speaker) -> None:
    keys = await speaker.task()
    async with opened(gateway.address, "session_id=another") as client:
        await client.send(type="cancel", task_id=TASK)
        assert (await client.receive())["code"] == "unknown_task"
    async with opened(gateway.address) as client:
        await client.send(type="cancel", task_id=TASK)
        await client.send(type="ping")
        assert await client.receive() == {"type": "pong"}
        await wait_until("the mail", lambda: speaker.store.call("ZRANGE", keys.signals, 0, -1))
        await client.send(type="cancel", task_id="task-0-nope")
        assert (await client.receive())["code"] == "unknown_task"
    assert await speaker.store.call("HGET", keys.header, "control") == b"cancel"


@pytest.mark.parametrize("kind", ["pause", "resume"])
async def test_pause_and_resume_reach_the_task_of_this_session_only(
    gateway: GatewayService, speaker: Speaker, kind: str
) -> None:
    keys = await speaker.task()
    async with opened(gateway.address, "session_id=another") as client:
        await client.send(type=kind, task_id=TASK)
        assert (await client.receive())["code"] == "unknown_task"
    async with opened(gateway.address) as client:
        for _ in range(2):
            await client.send(type=kind, task_id=TASK)
        await client.send(type="ping")
        assert await client.receive() == {"type": "pong"}
    assert await speaker.store.call("ZRANGE", keys.signals, 0, -1) == [f"1 {kind} {{}}".encode()]


async def test_the_bad_key_is_4401_and_the_good_one_may_come_as_a_subprotocol(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys="secret:acme") as service:
        url = f"ws{service.address.removeprefix('http')}/v1/ws?session_id=s1"
        with pytest.raises(ConnectionClosed) as closed:
            async with opened(service.address, subprotocols=["pentad.v1", "bearer.wrong"]):
                pass
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401, url
        async with opened(service.address, subprotocols=["pentad.v1", "bearer.secret"]) as client:
            assert client.connection.subprotocol == "pentad.v1"
        async with opened(service.address, additional_headers={"Authorization": "Bearer secret"}) as client:
            assert client.connection.subprotocol is None


async def test_pages_of_other_sites_are_refused(gateway: GatewayService) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}):
        with pytest.raises(InvalidStatus) as refused:
            async with opened(gateway.address, additional_headers=headers):
                pass
        assert refused.value.response.status_code == 403
    async with opened(gateway.address, additional_headers={"Origin": gateway.address}):
        pass


@pytest.mark.parametrize("query", ["session_id=s1&after=abc", "session_id=s1&after=1-2-3", "session_id=a%20b"])
async def test_a_malformed_cursor_or_session_is_said_and_the_connection_closed(
    gateway: GatewayService, query: str
) -> None:
    with pytest.raises(AssertionError, match="session"):
        async with opened(gateway.address, query):
            pass
