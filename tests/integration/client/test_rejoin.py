"""Coming back to a session that works: `pentad chat --session` follows what runs, at the keyboard and in a pipe."""

import asyncio
from pathlib import Path

import pentad
from tests.support.clients.fake_gateway import FakeGateway, cancelled, endless, fake_gateway, task, turn_events
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import in_time, wait_until

STEP = {"task_id": "task-0-a", "step": 1, "attempt": 1}
REST: list[Json] = [
    {"type": "content", "offset": 2, "content": " is the answer", **STEP},
    {"type": "message", "content": "42 is the answer", **STEP},
    {"type": "task_end", "task_id": "task-0-a", "status": "completed", "steps": 1},
]


def at_work(gateway: FakeGateway) -> None:
    """A task of ``s1`` has said the beginning of its answer; other sessions and ended tasks are of no concern."""
    gateway.tasks["task-0-a"] = task("task-0-a", "active")
    gateway.tasks["task-0-b"] = task("task-0-b", "active", session_id="s2")
    gateway.tasks["task-0-c"] = task("task-0-c", "completed")
    gateway.say("s1", *endless({"message_id": "m-before", "content": "6 * 7?"}))


def joining(message: Json) -> list[Json]:
    """A message that joins the task."""
    routed = {"type": "message_routed", "task_id": "task-0-a", "decision": "append", "confidence": 1.0}
    return [routed | {"message_id": message["message_id"], "reason": "it is live", "candidates": []}]


async def test_coming_back_to_a_task_at_work_shows_the_rest_of_it(tmp_path: Path) -> None:
    async with fake_gateway(script=turn_events("task-0-d", "So.")) as gateway:
        at_work(gateway)
        async with Terminal("chat", gateway.url, tmp_path, session="s1") as terminal:
            await terminal.sees("→ task task-0-a is still running")
            await terminal.sees("working 0 s")
            await wait_until("it to follow", lambda: len(gateway.connections) == 2)
            gateway.say("s1", *REST)
            await terminal.shows("→ task task-0-a is still running", "42 is the answer", "you>")
            terminal.type("and again\r")
            await terminal.shows("you> and again", "→ new task task-0-d", "So.", "you>")
            terminal.type("\x04")
            assert await terminal.code() == 0


async def test_what_is_typed_then_joins_it_and_ctrl_c_cancels_it(tmp_path: Path) -> None:
    async with fake_gateway(script=joining, on_cancel=cancelled) as gateway:
        at_work(gateway)
        async with Terminal("chat", gateway.url, tmp_path, session="s1") as terminal:
            await terminal.shows("→ task task-0-a is still running", "⠋ working", "you>")
            terminal.type("in words\r")
            await terminal.sees("→ added to what runs: the next step sees it")
            terminal.type("\x03")
            await terminal.sees("cancelling; Ctrl-C once more leaves")
            await terminal.shows("cancelled", "you>")
            terminal.type("\x03")
            assert await terminal.code() == 0
    assert gateway.cancelled == ["task-0-a"]
    assert [message["content"] for message in gateway.messages] == ["in words"]


async def test_a_second_ctrl_c_leaves_it(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        at_work(gateway)
        async with Terminal("chat", gateway.url, tmp_path, session="s1") as terminal:
            await terminal.sees("→ task task-0-a is still running")
            await terminal.sees("you>")
            terminal.type("\x03")
            await terminal.sees("cancelling")
            terminal.type("\x03")
            assert await terminal.code() == 0


async def test_an_idle_session_and_a_new_one_have_nothing_to_follow(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        at_work(gateway)
        for options in ({}, {"session": "s3"}):
            async with Terminal("chat", gateway.url, tmp_path, **options) as terminal:
                await terminal.shows("session s", "what you say", "you>")
                terminal.type("\x04")
                assert await terminal.code() == 0


async def test_a_pipe_waits_for_the_task_before_its_first_line(tmp_path: Path) -> None:
    async with fake_gateway(script=turn_events("task-0-d", "So.")) as gateway:
        at_work(gateway)
        chat = asyncio.create_task(piped("chat", gateway.url, tmp_path, "and again\n", session="s1"))
        await wait_until("it to follow", lambda: len(gateway.connections) == 2)
        gateway.say("s1", *REST[:2])
        await asyncio.sleep(0.3)
        assert gateway.messages == []
        gateway.say("s1", REST[2])
        code, out, err = await chat
    assert (code, err) == (0, "session s1: come back with `pentad chat --session s1`\n")
    assert out.splitlines() == [
        "→ task task-0-a is still running",
        "42 is the answer",
        "→ new task task-0-d (nothing else is going on)",
        "So.",
    ]


async def test_a_task_that_ends_before_it_is_followed_is_seen_to_end() -> None:
    async with fake_gateway() as gateway, pentad.connect(gateway.url) as agent:
        at_work(gateway)
        turn = await agent.running("s1")
        assert turn is not None
        assert turn.running == ["task-0-a"]
        gateway.say("s1", *REST)
        async with in_time():
            assert [received.event.type async for received in turn] == ["content", "message", "task_end"]
        assert turn.end is not None
        assert turn.end.ok
        assert await agent.running("s3") is None
