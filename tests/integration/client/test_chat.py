"""`pentad chat` in a real terminal and in a pipe."""

from collections import deque
from pathlib import Path
from typing import Any

from pentad.cli.gateway import login_name
from tests.support.clients.fake_gateway import cancelled, endless, fake_gateway, turn_events
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import wait_until

CALL = {"task_id": "task-0-a", "tool_call_id": "call-0-1", "tool": "calculator"}


def with_tool(message: Json) -> list[Json]:
    """A turn that uses a tool, whose first answer is withdrawn."""
    first, start, *_, end = turn_events()(message)
    delta = {"type": "content", "task_id": "task-0-a", "step": 2, "offset": 0}
    return [
        first,
        start,
        {"type": "tool_call", "args": {"expression": "6*7"}, **CALL},
        {"type": "tool_result", "result": "42", "duration_ms": 3, **CALL},
        {"content": "It is abou", "attempt": 1, **delta},
        {"content": "It is 42.", "attempt": 2, **delta},
        {"type": "message", "task_id": "task-0-a", "step": 2, "attempt": 2, "content": "It is 42."},
        end,
    ]


async def test_a_conversation_shows_tools_switches_and_withdrawn_text(tmp_path: Path) -> None:
    async with fake_gateway(script=with_tool) as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        await terminal.sees("come back with `pentad chat --session s-")
        await terminal.sees("you>")
        terminal.type("6 * 7?\r")
        await terminal.sees("→ new task task-0-a (nothing else is going on)")
        await terminal.sees('⚙ calculator(expression="6*7") → 42 (took 3 ms)')
        await terminal.sees("It is abou")
        await terminal.sees("… answer restarted")
        await terminal.sees("It is 42.")
        await terminal.sees("you>")
        gateway.script = turn_events("task-0-b", decision="reopen")
        terminal.type("and again\r")
        await terminal.sees("→ reopened task task-0-b")
        await terminal.sees("you>")
        terminal.type("/quit\r")
        assert await terminal.code() == 0
    assert len({query["session_id"] for query in gateway.connections}) == 1


def with_no_end(message: Json) -> list[Json]:
    """A turn whose answer has been told, and whose end has not."""
    return list(turn_events()(message))[:-2]


async def test_the_spinner_counts_seconds_while_nothing_comes(tmp_path: Path) -> None:
    def silent(message: Json) -> list[Json]:
        return list(turn_events()(message))[:2]

    async with (
        fake_gateway(script=silent) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.sees("you>")
        terminal.type("think\r")
        await terminal.sees("thinking 0 s")
        await wait_until("another second", lambda: any("thinking 1 s" in row for row in terminal.rows))
        gateway.say("s1", {"type": "tool_call", "args": {}, **CALL})
        await wait_until("the tool", lambda: any("running calculator 0 s" in row for row in terminal.rows))
        await wait_until("a second of it", lambda: any("running calculator 1 s" in row for row in terminal.rows))
        gateway.say("s1", {"type": "tool_progress", "content": "1 of 3", "fraction": 0.33, **CALL})
        await wait_until("its report", lambda: any("running calculator 33%: 1 of 3, " in row for row in terminal.rows))
        assert not any("1 of 3, 0 s" in row for row in terminal.rows), "counted from the report, not from the call"
        assert terminal.rows[-1].startswith("you>")


async def test_ctrl_c_cancels_the_task_and_ctrl_d_leaves(tmp_path: Path) -> None:
    async with fake_gateway(script=endless, on_cancel=cancelled) as gateway:
        async with Terminal("chat", gateway.url, tmp_path) as terminal:
            await terminal.sees("you>")
            terminal.type("count to a million\r")
            await terminal.shows("4", "you>")
            terminal.type("\x03")
            await terminal.sees("cancelling")
            await terminal.sees("cancelled")
            await terminal.sees("you>")
            terminal.type("\x04")
            assert await terminal.code() == 0
        assert gateway.cancelled == ["task-0-a"]


async def test_a_second_ctrl_c_leaves(tmp_path: Path) -> None:
    async with fake_gateway(script=endless) as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        await terminal.sees("you>")
        terminal.type("count to a million\r")
        await terminal.shows("4", "you>")
        terminal.type("\x03")
        await terminal.sees("cancelling")
        terminal.type("\x03")
        assert await terminal.code() == 0


def too_late(_: Json) -> list[Json]:
    """What a cancel brings when the answer was whole before it came."""
    return list(turn_events()({"message_id": "", "content": ""}))[-2:]


async def test_a_ctrl_c_right_after_the_answer_leaves(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=with_no_end, on_cancel=too_late) as gateway,
        Terminal("chat", gateway.url, tmp_path) as terminal,
    ):
        await terminal.sees("you>")
        terminal.type("6 * 7?\r")
        await terminal.shows("42", "you>")  # its two halves may be drawn apart
        terminal.type("\x03")
        assert await terminal.code() == 0


async def test_a_ctrl_c_right_after_the_answer_keeps_what_is_being_typed(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=with_no_end, on_cancel=too_late) as gateway,
        Terminal("chat", gateway.url, tmp_path) as terminal,
    ):
        await terminal.sees("you>")
        terminal.type("6 * 7?\r")
        await terminal.shows("42", "you>")  # its two halves may be drawn apart
        terminal.type("and times 2?\x03")
        await terminal.sees("cancelling")
        gateway.script = turn_events("task-0-b", answer="84")
        terminal.type("\r")
        await terminal.sees("84")


async def test_what_was_typed_is_kept_for_the_next_time_and_for_nobody_else(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        async with Terminal("chat", gateway.url, tmp_path) as terminal:
            await terminal.sees("you>")
            terminal.type("6 * 7?\r")
            await terminal.sees("42")
            await terminal.sees("you>")
            terminal.type("\x04")
            assert await terminal.code() == 0
        async with Terminal("chat", gateway.url, tmp_path) as terminal:
            await terminal.sees("you>")
            terminal.type("\x1b[A")
            await terminal.sees("6 * 7?")
    history = tmp_path / ".local/state/pentad/chat_history"
    assert history.read_text().splitlines() == ["6 * 7?"]
    assert oct(history.stat().st_mode)[-3:] == "600"


async def test_a_pipe_says_each_line_and_gets_plain_text(tmp_path: Path) -> None:
    def script(message: Json) -> list[Json]:
        return with_tool(message) if message["content"] == "6 * 7?" else list(turn_events("task-0-b", "So.")(message))

    async with fake_gateway(script=script, cut_after=deque([4])) as gateway:
        code, out, err = await piped("chat", gateway.url, tmp_path, "6 * 7?\n\nagain\n", session="s1")
    assert code == 0
    assert out.splitlines() == [
        "→ new task task-0-a (nothing else is going on)",
        '⚙ calculator(expression="6*7") → 42 (took 3 ms)',
        "It is 42.",
        "→ new task task-0-b (nothing else is going on)",
        "So.",
    ]
    assert err == "session s1: come back with `pentad chat --session s1`\n"
    assert [message["content"] for message in gateway.messages] == ["6 * 7?", "again"]
    assert {message["user_id"] for message in gateway.messages} == {login_name()}, "a chat names who is logged in"


async def test_a_pipe_fails_when_a_turn_does(tmp_path: Path) -> None:
    def failing(message: Json) -> list[Json]:
        failed: dict[str, Any] = {"type": "task_end", "task_id": "task-0-a", "status": "failed", "reason": "step_limit"}
        return [*list(turn_events()(message))[:2], failed]

    async with fake_gateway(script=failing) as gateway:
        code, out, _ = await piped("chat", gateway.url, tmp_path, "6 * 7?\n")
    assert code == 1
    assert out.splitlines()[-1] == "failed: step_limit"


async def test_nobody_at_the_address_is_one_line(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        url = gateway.url
    code, out, err = await piped("chat", url, tmp_path, "6 * 7?\n")
    assert (code, out) == (1, "")
    assert err.startswith(f"no gateway answers at {url}")
    assert len(err.splitlines()) == 1


async def test_no_colours_and_no_spinner_without_a_terminal(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        _, out, err = await piped("send", gateway.url, tmp_path, text="6 * 7?")
    assert (out, err) == ("42\n", "")


async def test_send_in_a_terminal_shows_its_progress_beside_the_answer(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=with_tool) as gateway,
        Terminal("send", gateway.url, tmp_path, text="6 * 7?") as terminal,
    ):
        await terminal.sees('⚙ calculator(expression="6*7") → 42 (took 3 ms)')
        await terminal.sees("It is 42.")
        assert await terminal.code() == 0


async def test_ctrl_c_on_send_says_what_becomes_of_the_task(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=endless) as gateway,
        Terminal("send", gateway.url, tmp_path, text="count to a million") as terminal,
    ):
        await terminal.sees("→ new task task-0-a")
        terminal.type("\x03")
        assert await terminal.code() == 130
        assert terminal.rows[-1] == "the task goes on: `pentad cancel task-0-a` stops it"
    assert gateway.cancelled == []


async def test_ctrl_c_on_send_before_the_task_has_a_name(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=lambda _: []) as gateway,
        Terminal("send", gateway.url, tmp_path, text="count to a million") as terminal,
    ):
        await wait_until("the message", lambda: bool(gateway.messages))
        terminal.type("\x03")
        assert await terminal.code() == 130
        assert "`pentad tasks` shows what runs" in terminal.rows[-1]
