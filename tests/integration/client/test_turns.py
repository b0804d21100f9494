"""What may be said with a message, and what leaving its turn does."""

import asyncio
from typing import Any

import pytest

import pentad
from tests.support.clients.fake_gateway import cancelled, endless, fake_gateway, turn_events
from tests.support.waiting import in_time, wait_until


async def test_a_turn_is_iterated_over_once() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        turn = agent.turn("6 * 7?")
        async with in_time():
            assert len([received async for received in turn]) == 6
            with pytest.raises(pentad.Refused, match="begin another"):
                _ = [received async for received in turn]


def broken_off(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn whose model breaks off in the middle of its answer, and begins anew."""
    *begin, first, _, whole, end = turn_events(answer="it is 42")(message)
    again = [first | {"attempt": 2, "content": "It"}, first | {"attempt": 2, "offset": 2, "content": " is 42"}]
    return [*begin, first, *again, whole | {"attempt": 2, "content": "It is 42"}, end]


async def test_the_text_of_a_turn_is_all_that_is_said_so_far_without_what_a_broken_stream_said() -> None:
    async with fake_gateway(script=broken_off) as gateway, pentad.connect(gateway.url) as agent, in_time():
        turn = agent.turn("6 * 7?")
        assert [text async for text in turn.text()] == ["it i", "It", "It is 42"]
        assert turn.end is not None


async def test_deadline_budget_metadata_and_instruction_go_with_the_message() -> None:
    more: dict[str, Any] = {
        "deadline": "2030-01-31T12:00:00Z",
        "budget": {"tokens": 10},
        "metadata": {"page": "7"},
        "instruction": "waiter",
    }
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        await agent.ask("6 * 7?", **more)
    [message] = gateway.messages
    assert {name: message[name] for name in more} == more


@pytest.mark.parametrize(("cancels", "asked"), [(True, ["task-0-a"]), (False, [])])
async def test_leaving_a_turn_cancels_it_where_that_is_asked_for(cancels: bool, asked: list[str]) -> None:
    async with fake_gateway(script=endless, on_cancel=cancelled) as gateway, pentad.connect(gateway.url) as agent:
        events = agent.send("6 * 7?", cancels=cancels)
        async for event in events:
            if isinstance(event, pentad.TaskStart):
                break
        await events.aclose()
    assert gateway.cancelled == asked


async def test_a_cancelled_reader_cancels_what_it_read() -> None:
    async with fake_gateway(script=endless) as gateway, pentad.connect(gateway.url) as agent:
        seen: list[str] = []

        async def read() -> None:
            async for event in agent.send("6 * 7?", cancels=True):
                seen[:] = [*seen, event.type]

        reading = asyncio.create_task(read())
        await wait_until("the turn to run", lambda: len(seen) == 3)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await wait_until("the task to be cancelled", lambda: gateway.cancelled == ["task-0-a"])


async def test_a_program_without_a_loop_asks_and_follows() -> None:
    def program(url: str) -> tuple[str, list[str], int]:
        with pentad.connect_sync(url) as agent:
            answer, alice = agent.ask("6 * 7?"), agent.session("alice")
            types = [str(event.type) for event in alice.send("6 * 7?")]
            for _ in alice.send("6 * 7?"):
                break
            return answer, types, len(agent.inspection.tasks())

    async with fake_gateway() as gateway:
        answer, types, tasks = await asyncio.to_thread(program, gateway.url)
    assert (answer, types[0], types[-1], tasks) == ("42", "message_routed", "task_end", 0)


async def test_a_program_without_a_loop_gets_errors_as_they_are() -> None:
    with pentad.connect_sync("http://127.0.0.1:1") as agent, pytest.raises(pentad.GatewayUnreachable):
        await asyncio.to_thread(agent.ask, "6 * 7?")
