"""`agent.send` against a gateway that misbehaves on a real socket."""

import asyncio
from collections import deque
from typing import Any

import pytest

import pentad
from pentad.client.agent import Agent
from pentad.client.turns import message_of
from pentad.contracts.events import SessionEvent
from tests.support.clients.fake_gateway import FakeGateway, fake_gateway, task, turn_events
from tests.support.ports import free_port
from tests.support.waiting import in_time, wait_until

TURN = ["message_routed", "task_start", "content", "content", "message", "task_end"]


async def said(agent: Agent, text: str = "6 * 7?", **options: Any) -> list[SessionEvent]:
    async with in_time():
        return [event async for event in agent.send(text, **options)]


def types(events: list[SessionEvent]) -> list[str]:
    return [event.type for event in events]


async def test_a_turn_is_followed_to_its_end_as_frozen_models() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        events = await said(agent)
    assert types(events) == TURN
    assert events[4].content == "42"  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="frozen"):
        events[0].task_id = "x"


def test_a_message_names_where_its_events_are_sent() -> None:
    told = message_of("hi", {"callback_url": "https://example.com/done", "callback_secret": "whsec_x"})
    assert (told["callback_url"], told["callback_secret"]) == ("https://example.com/done", "whsec_x")


async def test_sends_of_a_session_are_one_conversation_and_see_no_old_events() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        alice = agent.session("alice")
        await said(alice)
        gateway.script = turn_events("task-0-b", "again")
        second = await said(alice)
    assert {event.task_id for event in second} == {"task-0-b"}
    assert {query["session_id"] for query in gateway.connections} == {"alice"}


async def test_without_a_session_each_send_is_a_conversation_of_its_own() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        await said(agent)
        await said(agent)
        assert await agent.ask("6 * 7?") == "42"
        assert await agent.session().ask("6 * 7?", session_id="bob") == "42"
    sessions = [query["session_id"] for query in gateway.connections]
    assert len(set(sessions)) == 4
    assert sessions[3] == "bob"


async def test_events_of_other_tasks_of_the_session_are_not_part_of_the_turn() -> None:
    def two_tasks(message: dict[str, Any]) -> list[dict[str, Any]]:
        other = list(turn_events("task-0-other")(message | {"message_id": "m-other"}))
        return [*other[:3], *turn_events("task-0-mine")(message), *other[3:]]

    async with fake_gateway(script=two_tasks) as gateway, pentad.connect(gateway.url) as agent:
        events = await said(agent)
    assert types(events) == TURN
    assert {event.task_id for event in events} == {"task-0-mine"}


@pytest.mark.parametrize("after", range(7))
async def test_wherever_the_wire_is_cut_each_event_comes_once_and_the_message_is_one(after: int) -> None:
    async with fake_gateway(cut_after=deque([after, 0, after])) as gateway, pentad.connect(gateway.url) as agent:
        events = await said(agent)
    assert types(events) == TURN
    assert len({message["message_id"] for message in gateway.messages}) == 1


async def test_a_message_whose_acceptance_was_lost_is_said_again_under_the_same_id() -> None:
    async with fake_gateway(swallow_accept=1) as gateway, pentad.connect(gateway.url).session("s1") as agent:
        events = await said(agent)
    assert types(events) == TURN
    assert len(gateway.messages) == 2
    assert len({message["message_id"] for message in gateway.messages}) == 1


async def test_a_routed_message_is_not_said_again() -> None:
    async with fake_gateway(cut_after=deque([2])) as gateway, pentad.connect(gateway.url) as agent:
        await said(agent)
    assert len(gateway.messages) == 1
    assert gateway.connections[1]["after"] == "1700000000000-2"


@pytest.mark.parametrize("code", [1012, 1013, 1001, 1011])
async def test_a_restarting_or_impatient_gateway_is_come_back_to(code: int) -> None:
    async with fake_gateway(close_after=deque([(3, code)])) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN


@pytest.mark.parametrize("cursor", [None, "0-0", "0"])
async def test_a_session_without_events_is_come_back_to_from_its_beginning(cursor: str | None) -> None:
    greeting = {"type": "session", "session_id": "s1", "cursor": cursor}
    async with fake_gateway(greeting=greeting, cut_after=deque([0])) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN
    assert gateway.connections[1]["after"] == "0"


async def test_repeated_events_are_dropped() -> None:
    async with fake_gateway(repeat=True, cut_after=deque([4])) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN


async def test_a_gateway_that_is_away_for_a_while_is_waited_for() -> None:
    notices: list[str] = []
    gateway = FakeGateway(script=lambda message: list(turn_events()(message))[:3])
    await gateway.start()
    async with pentad.connect(gateway.url, notice=notices.append).session("s1") as agent:
        turn = asyncio.create_task(said(agent))
        await wait_until("half of the turn has happened", lambda: len(gateway.events["s1"]) == 3)
        await gateway.stop()
        await wait_until("the client noticed", lambda: bool(notices))
        await gateway.start()
        rest = list(turn_events()({"message_id": "m", "content": ""}))[3:]
        gateway.say("s1", *rest)
        assert types(await turn) == TURN
    await gateway.stop()
    assert notices[0].endswith("trying again")


async def test_patience_ends_with_words() -> None:
    gateway = FakeGateway(script=lambda _: [])
    await gateway.start()
    async with pentad.connect(gateway.url, patience_s=0.1) as agent:
        turn = asyncio.create_task(said(agent))
        await wait_until("the message came", lambda: bool(gateway.messages))
        await gateway.stop()
        with pytest.raises(pentad.GatewayUnreachable, match=r"for 0.1 s\): start it with"):
            await turn


async def test_nobody_at_the_address_is_said_at_once() -> None:
    async with pentad.connect(f"http://127.0.0.1:{free_port()}") as agent:
        with pytest.raises(pentad.GatewayUnreachable, match=r"no gateway answers at .*make run.*--url"):
            await said(agent)


async def test_an_expired_cursor_brings_a_snapshot_that_can_end_the_turn() -> None:
    async with fake_gateway(cut_after=deque([2])) as gateway, pentad.connect(gateway.url) as agent:
        gateway.snapshot = {
            "tasks": [{"task_id": "task-0-a", "status": "completed"}],
            "messages": [{"role": "assistant", "task_id": "task-0-a", "content": "42"}],
        }
        events = await said(agent)
    assert types(events) == ["message_routed", "task_start", "error", "snapshot"]


async def test_a_snapshot_without_the_task_asks_for_the_task() -> None:
    async with fake_gateway(cut_after=deque([2])) as gateway, pentad.connect(gateway.url) as agent:
        gateway.snapshot = {"tasks": [], "messages": []}
        gateway.tasks["task-0-a"] = task("task-0-a", "completed")
        assert types(await said(agent))[-1] == "snapshot"


async def test_after_a_snapshot_of_a_running_task_its_events_go_on() -> None:
    running = {"tasks": [{"task_id": "task-0-a", "status": "active"}], "messages": []}
    half: dict[str, Any] = {"script": lambda message: list(turn_events()(message))[:3], "cut_after": deque([2])}
    async with fake_gateway(**half, snapshot=running) as gateway, pentad.connect(gateway.url).session("s1") as agent:
        turn = asyncio.create_task(said(agent))
        await wait_until("the snapshot was sent", lambda: gateway.snapshot is None)
        gateway.say("s1", *list(turn_events()({"message_id": "m", "content": ""}))[4:])
        assert types(await turn)[2:] == ["error", "snapshot", "message", "task_end"]


async def test_a_wrong_key_is_no_reason_to_try_again() -> None:
    async with fake_gateway(key="right") as gateway:
        async with pentad.connect(gateway.url, "wrong") as agent:
            with pytest.raises(pentad.NotAuthorized, match="does not know this API key: set PENTAD_API_KEY"):
                await said(agent)
        async with pentad.connect(gateway.url) as agent:
            with pytest.raises(pentad.NotAuthorized, match="wants an API key"):
                await said(agent)
        async with pentad.connect(gateway.url, "right") as agent:
            assert types(await said(agent)) == TURN


async def test_a_key_refused_by_close_code_is_no_reason_to_try_again() -> None:
    async with fake_gateway(close_after=deque([(0, 4401)])) as gateway, pentad.connect(gateway.url, "k") as agent:
        with pytest.raises(pentad.NotAuthorized):
            await said(agent)
    assert len(gateway.connections) == 1


async def test_a_busy_handshake_is_tried_again_after_the_time_it_names() -> None:
    refusals = deque([(429, {"Retry-After": "0"}), (503, {})])
    async with fake_gateway(refuse=refusals) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN


async def test_a_busy_answer_to_a_new_message_ends_its_turn() -> None:
    busy = {"code": "busy", "message": "too much waits", "retry_after": 0.5}
    async with fake_gateway(error_frames=deque([busy])) as gateway, pentad.connect(gateway.url) as agent:
        events = await said(agent)
    assert types(events) == ["error"]


async def test_a_busy_answer_to_a_message_that_may_have_arrived_is_no_end() -> None:
    async with fake_gateway(swallow_accept=1) as gateway, pentad.connect(gateway.url).session("s1") as agent:
        gateway.script = lambda _: []
        turn = asyncio.create_task(said(agent))
        await wait_until("the message came", lambda: bool(gateway.messages))
        gateway.error_frames.append({"code": "busy", "message": "too much waits", "retry_after": 0.01})
        await wait_until("the message came again", lambda: not gateway.error_frames and len(gateway.messages) == 2)
        gateway.say("s1", *turn_events()(gateway.messages[0]))
        assert types(await turn) == TURN


async def test_a_gateway_in_doubt_is_no_end_and_the_message_is_sent_again_under_its_id() -> None:
    doubt = {"code": "busy", "message": "may have been accepted", "retry_after": 0.01, "in_doubt": True}
    async with fake_gateway(error_frames=deque([doubt])) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN
    assert len(gateway.connections) == 2


async def test_the_snapshot_of_a_session_whose_events_have_run_out_is_heard() -> None:
    """Its cursor is 0-0, which lies behind nothing: the turn would wait for ever for what the snapshot tells."""
    over = {"tasks": [task("task-0-a", "completed", "s1")], "messages": [{"role": "assistant", "content": "42"}]}
    async with fake_gateway(cut_after=deque([1])) as gateway, pentad.connect(gateway.url) as agent:
        events = []
        async for event in agent.send("6 * 7?", session_id="s1"):
            events.append(event)
            if gateway.snapshot is None and len(events) == 1:
                gateway.snapshot = over
                gateway.events["s1"].clear()
    assert types(events)[-2:] == ["error", "snapshot"]


async def test_what_is_no_gateway_is_named() -> None:
    async with fake_gateway(refuse=deque([(404, {})])) as gateway, pentad.connect(gateway.url) as agent:
        with pytest.raises(pentad.Refused, match="not a Pentad gateway"):
            await said(agent)
    async with fake_gateway(greeting={"hello": "world"}) as gateway, pentad.connect(gateway.url) as agent:
        with pytest.raises(pentad.Refused, match="not a Pentad gateway"):
            await said(agent)


async def test_a_proxy_that_passes_no_websocket_on_is_named() -> None:
    async with fake_gateway(refuse=deque([(426, {})])) as gateway, pentad.connect(gateway.url) as agent:
        with pytest.raises(
            pentad.Refused, match=r"a proxy before .* passes no WebSocket on: .* Upgrade and Connection"
        ):
            await said(agent)


async def test_an_id_that_was_said_before_gives_its_first_turn_again() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url).session("s1") as agent:
        first = await said(agent, message_id="order-7")
        gateway.script = turn_events("task-0-b")
        await said(agent, message_id="order-8")
        assert await said(agent, message_id="order-7") == first


async def test_events_of_a_newer_gateway_are_passed_over() -> None:
    def newer(message: dict[str, Any]) -> list[dict[str, Any]]:
        first, *rest = turn_events()(message)
        return [first, {"type": "mood", "task_id": "task-0-a", "content": "good"}, *rest]

    async with fake_gateway(script=newer) as gateway, pentad.connect(gateway.url) as agent:
        assert types(await said(agent)) == TURN


@pytest.mark.parametrize("options", [{"session_id": "a b"}, {"task_id": "-x"}, {"message_id": "a b"}, {"user_id": "/"}])
async def test_what_is_no_identifier_is_refused_before_anything_is_sent(options: dict[str, str]) -> None:
    async with pentad.connect("http://127.0.0.1:9") as agent:
        with pytest.raises(pentad.Refused, match="is not one: 1 to 128"):
            await said(agent, **options)


@pytest.mark.parametrize("text", ["", "x" * 65_537])
async def test_a_text_of_a_wrong_length_is_refused_before_anything_is_sent(text: str) -> None:
    async with pentad.connect("http://127.0.0.1:9") as agent:
        with pytest.raises(pentad.Refused, match="1 to 65536 characters"):
            await said(agent, text)
