"""`pentad chat` in a wide terminal: the pane beside it, its keys, and what is left when it ends."""

from pathlib import Path
from typing import Any

from tests.support.clients.fake_gateway import FakeGateway, cancelled, endless, fake_gateway, task, turn_events
from tests.support.clients.fake_wire import AT, Json
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import wait_until

WIDE = (30, 140)
CALL = "call-0-1"
LATER = "2030-01-31T12:30:00.000Z"


def waiting(call: str = CALL, **more: Any) -> Json:
    """A tool call that waits for an approval, as a gateway lists it."""
    about = {"task_id": "task-0-a", "session_id": "s1", "tool_call_id": call, "tool": "pay", "args": {"to": "ann"}}
    about |= {"args_digest": "0" * 64, "effect": "unsafe", "reason": "it is much", "asked_at": AT, "expires_at": LATER}
    return about | {"needs": "approval"} | more


def paying(gateway: FakeGateway, *calls: Json) -> None:
    """A task of s1 that waits for decisions about these calls, and one that has ended."""
    gateway.tasks["task-0-a"] = task("task-0-a", "waiting", goal="pay the bill") | {"waiting_for": ["approval"]}
    gateway.tasks["task-0-b"] = task("task-0-b", "completed", goal="count")
    gateway.listed["approvals"] = [*calls]


def chat(gateway: FakeGateway, home: Path, **options: str) -> Terminal:
    return Terminal("chat", gateway.url, home, session="s1", **options).sized(*WIDE)


def pane(terminal: Terminal) -> str:
    """The text right of the line between conversation and pane."""
    return "\n".join(row.partition("│")[2].strip() for row in terminal.rows if "│" in row)


def talk(terminal: Terminal) -> str:
    return "\n".join(row.partition("│")[0].rstrip() for row in terminal.rows)


async def sees(terminal: Terminal, *texts: str) -> None:
    """Wait until the pane has these texts."""
    try:
        await wait_until("the pane", lambda: all(text in pane(terminal) for text in texts))
    except AssertionError:
        raise AssertionError(f"no {texts} in\n" + "\n".join(terminal.rows)) from None


async def says(terminal: Terminal, *texts: str) -> None:
    """Wait until the conversation has these texts."""
    try:
        await wait_until("the conversation", lambda: all(text in talk(terminal) for text in texts))
    except AssertionError:
        raise AssertionError(f"no {texts} in\n" + "\n".join(terminal.rows)) from None


async def test_the_pane_shows_tasks_and_what_waits_and_its_keys_decide(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        paying(gateway, waiting(), waiting("call-0-2", args={"to": "bob"}))
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "WAITS FOR YOU", 'pay(to="ann")', "it is much", f"/approve {CALL}", "until 12:30 UTC")
            await sees(terminal, "TASKS", "pay the bill] waiting", "count] completed", "Tab: choose here")
            await says(terminal, 'pay(to="ann") waits for approval', "you>")
            terminal.type("\t")
            await sees(terminal, "a approve, r refuse, e edit")
            terminal.type("\x1b[B")
            await sees(terminal, '> 2: pay(to="bob")')
            terminal.type("r")
            await says(terminal, "you> /refuse call-0-2")
            assert gateway.decided == [], "a letter decided by itself"
            terminal.type("too dear\r")
            await wait_until("the decision", lambda: [each["approved"] for each in gateway.decided] == [False])
            assert [(each["tool_call_id"], each["reason"]) for each in gateway.decided] == [("call-0-2", "too dear")]
            await wait_until("it to leave the pane", lambda: "bob" not in pane(terminal))
            terminal.type("\ta\r")
            await wait_until("the other", lambda: [each["approved"] for each in gateway.decided] == [False, True])
            await wait_until("nothing to wait", lambda: "WAITS FOR YOU" not in pane(terminal))


async def test_a_key_means_nothing_when_the_call_that_was_chosen_has_gone(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        paying(gateway, waiting(), waiting("call-0-2", args={"to": "bob"}))
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "WAITS FOR YOU")
            terminal.type("\t")
            await sees(terminal, '> 2: pay(to="ann")')
            del gateway.listed["approvals"][0]  # somebody else has decided
            await sees(terminal, "↑ ↓ choose", 'pay(to="bob")')
            terminal.type("a\x1b[B")
            await sees(terminal, '> 2: pay(to="bob")')
            assert "/approve" not in terminal.rows[-1].partition("│")[0], "a key meant a call that was not chosen"


async def test_arguments_are_edited_in_the_prompt(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        paying(gateway, waiting())
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "WAITS FOR YOU")
            terminal.type("\te")
            await says(terminal, f'you> /approve {CALL} {{"to": "ann"}}')
            terminal.type("\x7f" * 5 + 'eve"}\r')
            await wait_until("the decision", lambda: [each["args"] for each in gateway.decided] == [{"to": "eve"}])


async def test_a_question_with_a_form_is_answered_by_its_values_in_the_prompt(tmp_path: Path) -> None:
    form = {"properties": {"seat": {"enum": ["aisle", "window"]}}}
    async with fake_gateway() as gateway:
        paying(gateway, waiting(needs="input", form=form, reason="which seat?"))
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "which seat?")
            terminal.type("\ta")
            await says(terminal, f'you> /approve {CALL} {{"seat": "aisle | window"}}')
            assert gateway.decided == []


async def test_the_pane_follows_the_turn_and_stops_a_task(tmp_path: Path) -> None:
    async with fake_gateway(script=endless, on_cancel=cancelled) as gateway, chat(gateway, tmp_path) as terminal:
        await sees(terminal, "none yet")
        gateway.tasks["task-0-a"] = task("task-0-a", "active", goal="count to a million")
        terminal.type("count to a million\r")
        await says(terminal, "you> count to a million", "→ new task task-0-a")
        await sees(terminal, "[1 count to a million] active")
        terminal.type("\tx\r")
        await wait_until("the cancel", lambda: gateway.cancelled == ["task-0-a"])
        await says(terminal, "you> /cancel 1", "cancelled")
        terminal.type("my draft\t\r")
        await says(terminal, "you> /task 1")
        terminal.type("\x15\x1b[A")
        await says(terminal, "you> my draft")


async def test_a_narrow_terminal_has_no_pane_and_one_that_becomes_narrow_loses_it(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        paying(gateway, waiting())
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "WAITS FOR YOU")
            terminal.type("\t")
            await sees(terminal, "a approve")
            terminal.resize(24, 80)
            await says(terminal, "\nstops, Ctrl-D leaves")
            assert not any("│" in row for row in terminal.rows)
            terminal.type("x and a stay letters\r")
            await says(terminal, "you> x and a stay letters")
            await wait_until("the message", lambda: [each["content"] for each in gateway.messages] != [])
            terminal.resize(*WIDE)
            await sees(terminal, "WAITS FOR YOU")
        async with chat(gateway, tmp_path, plain="yes") as terminal:
            await terminal.shows('? pay(to="ann")', f"  /approve {CALL}", "you>")
            assert not any("│" in row for row in terminal.rows)
        code, out, _ = await piped("chat", gateway.url, tmp_path, "/help\n", session="s1")
        assert code == 0
        assert out.splitlines()[0] == '? pay(to="ann") waits for approval (it is much)'
    assert gateway.decided == []


async def test_what_was_said_stays_in_the_terminal_and_can_be_read_again(tmp_path: Path) -> None:
    long = "\n".join(f"line {n}" for n in range(100))
    async with fake_gateway(script=turn_events(answer=long)) as gateway, chat(gateway, tmp_path) as terminal:
        await says(terminal, "you>")
        terminal.type("say much\r")
        await says(terminal, "line 99")
        terminal.type("\x1b[5~" * 4)
        await says(terminal, "line 20", "more below: PageDown")
        terminal.type("\x1b[6~" * 4)
        await says(terminal, "line 99")
        terminal.type("\x04")
        assert await terminal.code() == 0
        assert "line 99" in terminal.screen.rpartition("\x1b[?1049l")[2]


async def test_ctrl_c_stops_what_runs_and_leaves_when_nothing_does(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=endless, on_cancel=cancelled) as gateway,
        chat(gateway, tmp_path) as terminal,
    ):
        await says(terminal, "you>")
        terminal.type("count\r")
        await says(terminal, "→ new task task-0-a")
        terminal.type("\x03")
        await says(terminal, "cancelling", "cancelled")
        assert gateway.cancelled == ["task-0-a"]
        terminal.type("\x03")
        assert await terminal.code() == 0


async def test_hostile_text_moves_nothing_in_the_pane(tmp_path: Path) -> None:
    """Security: names and arguments of a model cannot draw outside of their row."""
    async with fake_gateway() as gateway:
        paying(gateway, waiting(tool="pay\x1b[2J", args={"to": "\x1b]0;evil\x07\n" * 50}, reason="\x1b[31m" * 99))
        gateway.tasks["task-0-c"] = task("task-0-c", "active", goal="\x1b[2J\x1b[1;1H" + "wide 宽" * 200)
        async with chat(gateway, tmp_path) as terminal:
            await sees(terminal, "WAITS FOR YOU", "TASKS")
            assert len({row.index("│") for row in terminal.rows if "│" in row}) == 1
            assert "evil" not in terminal.screen.split("\x1b]")[-1] or "\x1b]0;" not in terminal.screen
