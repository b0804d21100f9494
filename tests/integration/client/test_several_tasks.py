"""`pentad chat` with several tasks at work, and `pentad tasks --watch`."""

import json
from pathlib import Path

from tests.support.clients.fake_gateway import cancelled, endless, fake_gateway, task, turn_events
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import wait_until


def by_words(message: Json) -> list[Json]:
    """A new task for each of two subjects, both of which go on; what names a task goes there."""
    name = message.get("task_id") or ("task-0-a" if "count" in message["content"] else "task-0-b")
    if "task_id" in message:
        return list(turn_events(name, decision="append", reason="the message names it")(message))[:1]
    return [{**event, "task_id": name} for event in endless(message)]


async def test_two_tasks_at_once_stand_side_by_side_and_a_command_says_something_to_one(tmp_path: Path) -> None:
    async with fake_gateway(script=by_words) as gateway, Terminal("chat", gateway.url, tmp_path, session="s1") as chat:
        await chat.shows("session s1", "what you say", "you>")
        chat.type("count\r")
        await chat.shows("4", "you>")
        chat.type("sing\r")
        await chat.shows("[1 count] 4", "[2 sing] 4", "you>")
        step = {"step": 1, "attempt": 1}
        gateway.say("s1", {"type": "content", "task_id": "task-0-b", "offset": 1, "content": " la\nla", **step})
        await chat.shows("[2 sing] 4 la", "[1 count] 4", "[2 sing] la", "you>")
        gateway.tasks = {"task-0-b": task("task-0-b", "active", goal="sing"), "task-0-a": task("task-0-a", "active")}
        gateway.tasks["task-0-a"]["goal"] = "count"
        gateway.tasks["task-0-b"] |= {"waiting_for": ["call-1"], "waiting_for_tools": ["piano"]}
        chat.type("/tasks\r")
        await wait_until("the list", lambda: any("[2 sing] waits for piano" in row for row in chat.rows))
        assert any(row.startswith("active") and " ago " in row and "[2 sing]" in row for row in chat.rows)
        chat.type("/task 1 faster\r")
        await chat.sees("→ added to task")
        chat.type("/task 9 faster\r")
        await chat.sees("there is no task 9: /tasks lists them")
        chat.type("/cancel 2\r")
        await wait_until("the task to be cancelled", lambda: gateway.cancelled == ["task-0-b"])
        chat.type("/faster\r")
        await chat.sees("there is no command /faster: /help lists them")
        await chat.sees("you>")
        chat.type("\x04")
        assert await chat.code() == 0
    assert [message.get("task_id") for message in gateway.messages] == [None, None, "task-0-a"]


async def test_a_pipe_has_the_same_commands(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a", goal="count")
        gateway.tasks["task-0-z"] = task("task-0-z", session_id="s2")
        code, out, _ = await piped(
            "chat", gateway.url, tmp_path, "/tasks\n/task 1 go on\n/cancel 1\n/task 7 no\n", session="s1"
        )
    assert code == 1
    first, *_, last = out.splitlines()
    assert first.startswith("completed")
    assert first.endswith("[1 count]")
    assert last == "there is no task 7: /tasks lists them"
    assert [message["task_id"] for message in gateway.messages] == ["task-0-a"]
    assert "task-0-a has ended" in out, "what is over cannot be cancelled"


async def test_the_watched_list_is_drawn_again_at_each_change_until_ctrl_c(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a", "waiting") | {"waiting_for": ["question"]}
        async with Terminal("tasks:run_tasks", gateway.url, tmp_path, session="s1", watch="yes") as terminal:
            await terminal.sees("waiting")
            await terminal.sees("(question) 6 * 7?")
            await wait_until("it to follow", lambda: len(gateway.connections) == 2)
            gateway.tasks["task-0-a"] = task("task-0-a", "failed")
            gateway.say("s1", {"type": "task_end", "task_id": "task-0-a", "status": "failed"})
            await terminal.sees("failed")
            await wait_until("the list before to be gone", lambda: not any("waiting" in row for row in terminal.rows))
            terminal.type("\x03")
            assert await terminal.code() in (0, 130)


async def test_json_is_a_task_a_line(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks = {name: task(name, status) for name, status in [("task-0-a", "active"), ("task-0-b", "failed")]}
        code, out, _ = await piped("tasks:run_tasks", gateway.url, tmp_path, json="yes")
    assert code == 0
    assert [json.loads(line)["task_id"] for line in out.splitlines()] == ["task-0-a", "task-0-b"]


async def test_each_ctrl_c_cancels_the_task_that_was_shown_last_and_says_which(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=by_words, on_cancel=cancelled) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as chat,
    ):
        await chat.shows("session s1", "what you say", "you>")
        chat.type("count\r")
        await chat.shows("4", "you>")
        chat.type("sing\r")
        await chat.shows("[1 count] 4", "[2 sing] 4", "you>")
        step = {"task_id": "task-0-a", "step": 1, "attempt": 1}
        gateway.say("s1", {"type": "content", "offset": 1, "content": " five\nsi", **step})
        await chat.shows("[1 count] 4 five", "[2 sing] 4", "[1 count] si", "you>")
        chat.type("\x03")
        await chat.sees("cancelling 1 count; Ctrl-C once more leaves")
        await chat.sees("cancelled")
        assert gateway.cancelled == ["task-0-a"]
        chat.type("\x03")
        await chat.sees("cancelling; Ctrl-C once more leaves")
        await wait_until("the other to be cancelled", lambda: gateway.cancelled == ["task-0-a", "task-0-b"])
        await chat.sees("you>")
        chat.type("\x04")
        assert await chat.code() == 0
