"""`turn.say`: what is said while a turn lasts belongs to it, across lost connections and refusals."""

from collections import deque
from typing import Any

import pytest

import pentad
from pentad.contracts.events import SessionEvent
from tests.support.clients.fake_gateway import fake_gateway, turn_events
from tests.support.waiting import in_time


def types(events: list[SessionEvent]) -> list[str]:
    return [event.type for event in events]


def joining(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn that waits for a second message, which ends it."""
    first = list(turn_events()(message))
    if message["content"] == "6 * 7?":
        return first[:3]
    return [first[0] | {"decision": "append"}, *first[4:]]


@pytest.mark.parametrize("cut", [None, 1, 2, 3, 4])
async def test_what_is_said_while_a_turn_lasts_is_part_of_it_wherever_the_wire_is_cut(cut: int | None) -> None:
    cuts = deque([] if cut is None else [cut, 0])
    async with fake_gateway(script=joining, cut_after=cuts) as gateway, pentad.connect(gateway.url) as agent:
        turn, events = agent.turn("6 * 7?"), []
        async with in_time():
            async for received in turn:
                events.append(received.event)
                if received.event.type == "content":
                    assert turn.end is None
                    await turn.say("and again")
    assert types(events) == ["message_routed", "task_start", "content", "message_routed", "message", "task_end"]
    assert turn.end is not None
    assert (turn.end.ok, turn.task_id, turn.running) == (True, "task-0-a", [])
    assert len({message["message_id"] for message in gateway.messages}) == 2
    with pytest.raises(pentad.Refused, match="this turn is over"):
        await turn.say("too late")


async def test_a_busy_answer_to_what_is_said_later_ends_that_turn_alone() -> None:
    async with fake_gateway(script=joining) as gateway, pentad.connect(gateway.url) as agent:
        turn, events = agent.turn("6 * 7?", session_id="s1"), []
        async with in_time():
            async for received in turn:
                events.append(received.event)
                if received.event.type == "content":
                    gateway.error_frames.append({"code": "busy", "message": "too much waits", "retry_after": 2})
                    late = await turn.say("and again")
                if received.event.type == "error":
                    assert turn.end is None, "the first message's turn goes on"
                    end = {"type": "task_end", "task_id": "task-0-a", "status": "completed", "steps": 1}
                    gateway.say("s1", end)
    assert types(events) == ["message_routed", "task_start", "content", "error", "task_end"]
    assert events[3].message_id == late  # type: ignore[union-attr]
    assert turn.end is not None
    assert turn.end.outcome == "error", "the newest message's"


async def test_what_is_said_while_the_gateway_is_away_goes_out_when_it_is_back() -> None:
    async with fake_gateway(script=joining) as gateway, pentad.connect(gateway.url) as agent:
        turn, events = agent.turn("6 * 7?"), []
        async with in_time():
            async for received in turn:
                events.append(received.event)
                if received.event.type == "content":
                    await gateway.stop()
                    await turn.say("and again")
                    await gateway.start()
    assert types(events)[-2:] == ["message", "task_end"]
    assert [message["content"] for message in gateway.messages] == ["6 * 7?", "and again"]
