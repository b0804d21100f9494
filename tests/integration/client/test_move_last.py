"""``/move`` in `pentad chat`: the last message goes to another task, and what comes of it follows."""

from pathlib import Path

import pentad
from tests.support.clients.fake_gateway import endless, fake_gateway, task, turn_events
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import wait_until


def by_words(message: Json) -> list[Json]:
    """A task that goes on, and one that has answered."""
    if message["content"] == "count":
        return endless(message)
    return list(turn_events("task-0-b", "la")(message))


def moved(about: Json, emptied: bool = False) -> Json:
    told = {"message_id": about["message_id"], "from_task_id": about["task_id"], "to_task_id": "task-0-a"}
    return {"type": "message_moved", "task_id": about["task_id"], "emptied": emptied, **told}


async def test_the_last_message_is_moved_and_its_new_task_answers_in_the_terminal(tmp_path: Path) -> None:
    async with pentad.start(tmp_path / "data") as agent, Terminal("chat", address(tmp_path), tmp_path) as chat:
        await chat.shows("session s-", "what you say", "you>")
        chat.type("/move new\r")
        await chat.sees("there is no message to move yet")
        chat.type("what is 6*7?\r")
        await chat.shows("6*7 = 42", "you>")
        chat.type("/move 1\r")
        await chat.sees("the message is in this task already")
        chat.type("/move new\r")
        await chat.sees("went to task")
        await chat.sees("has no message left: cancelled")
        await chat.shows("6*7 = 42", "you>")

        async def ended() -> bool:
            return [task.status for task in await agent.inspection.tasks()] == ["completed", "cancelled"]

        await wait_until("both to have ended", ended)  # answers are shown while they are being given
        chat.type("/tasks\r")
        await wait_until("the list", lambda: any(row.startswith("cancelled") for row in chat.rows))
        chat.type("\x04")
        assert await chat.code() == 0


def address(folder: Path) -> str:
    """Of the system on the folder's data directory."""
    return (folder / "data" / "gateway.url").read_text()


async def test_a_move_beside_a_task_that_works_is_followed_with_it(tmp_path: Path) -> None:
    def move(about: Json) -> list[Json]:
        step = {"task_id": "task-0-a", "step": 2, "attempt": 1}
        return [moved(about), {"type": "message", "content": "4, and la", **step}]

    async with (
        fake_gateway(script=by_words, on_move=move) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as chat,
    ):
        await chat.shows("session s1", "what you say", "you>")
        chat.type("count\r")
        await chat.shows("4", "you>")
        chat.type("sing\r")
        await chat.sees("la")
        chat.type("/move 1\r")
        await chat.sees("went to task")
        await chat.sees("4, and la")
        chat.type("\x04")
        assert await chat.code() == 0
    (asked,) = gateway.moved
    assert asked == ("task-0-b", {"message_id": gateway.messages[1]["message_id"], "to": "task-0-a"})


async def test_a_move_that_is_refused_leaves_the_turn_beside_it_as_it_was(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=by_words) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as chat,
    ):
        await chat.shows("session s1", "what you say", "you>")
        chat.type("count\r")
        await chat.shows("4", "you>")
        chat.type("/move 1\r")
        await chat.sees("the message is in this task already")
        chat.type("sing\r")
        await chat.sees("la")
        chat.type("\x04")
        assert await chat.code() == 0
    assert len(gateway.connections) == 2, "one asks where the session stands, the other is the turn's, which goes on"


async def test_a_pipe_has_the_same_command_and_each_error_is_one_line(tmp_path: Path) -> None:
    def move(about: Json) -> list[Json]:
        step = {"task_id": "task-0-a", "step": 2, "attempt": 1}
        end = {"type": "task_end", "task_id": "task-0-a", "status": "completed"}
        return [moved(about), {"type": "message", "content": "4, and la", **step}, end]

    async with fake_gateway(script=by_words, on_move=move) as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a", goal="count")
        said = "/move 1\n/move\n/tasks\n/move new\nsing\n/move 1\n"
        code, out, _ = await piped("chat", gateway.url, tmp_path, said, session="s1")
    assert code == 1
    first, usage, _, none, *_, gone, answer = out.splitlines()
    assert first == "there is no task 1: /tasks lists them"
    assert usage == "write it as /move NUMBER or /move new"
    assert none == "there is no message to move yet"
    assert gone.endswith("went to task [1 count]")
    assert answer.endswith("4, and la")


async def test_a_move_that_the_task_could_not_carry_out_ends_with_its_reason(tmp_path: Path) -> None:
    def move(about: Json) -> list[Json]:
        why = "nothing was moved: it is gone"
        return [{"type": "error", "task_id": about["task_id"], "code": "not_allowed", "message": why}]

    async with fake_gateway(script=by_words, on_move=move) as gateway:
        code, out, _ = await piped("chat", gateway.url, tmp_path, "sing\n/move new\n", session="s1")
    assert code == 1
    assert out.splitlines()[-1] == "not_allowed: nothing was moved: it is gone"
