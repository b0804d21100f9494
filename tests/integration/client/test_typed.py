"""`pentad chat` in a real terminal while the agent works: typing ahead, Ctrl-C, leaving."""

from pathlib import Path

import pytest

from tests.support.clients.fake_gateway import cancelled, endless, fake_gateway
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import Terminal
from tests.support.waiting import wait_until


def joining(message: Json) -> list[Json]:
    """A turn that lasts until a second message joins it."""
    if message["content"] == "count to a million":
        return endless(message)
    routed = {"type": "message_routed", "task_id": "task-0-a", "decision": "append", "confidence": 1.0}
    step = {"task_id": "task-0-a", "step": 2, "attempt": 1}
    return [
        routed | {"message_id": message["message_id"], "reason": "it is live", "candidates": []},
        {"type": "message", "content": "4 is enough.", "task_id": "task-0-a", "step": 1, "attempt": 1},
        {"type": "message", "content": "Then I stop.", **step},
        {"type": "task_end", "task_id": "task-0-a", "status": "completed", "steps": 2},
    ]


async def test_a_line_typed_while_the_agent_works_joins_what_runs(tmp_path: Path) -> None:
    async with fake_gateway(script=joining) as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        await terminal.shows("session s-", "what you say", "you>")
        terminal.type("count to a million\r")
        await terminal.shows("you> count to a million", "→ new task task-0-a", "4", "you>")
        terminal.type("that will do\r")
        await terminal.shows("→ added to what runs: the next step sees it", "4 is enough.", "Then I stop.", "you>")
        terminal.type("\x04")
        assert await terminal.code() == 0
    assert [message["content"] for message in gateway.messages] == ["count to a million", "that will do"]
    assert len(gateway.connections) == 1
    typed = [row for row in terminal.rows if row.startswith("you>")]
    assert typed == ["you> count to a million", "you> that will do", "you>"]


async def test_what_is_being_typed_stays_while_text_comes_in_above_it(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=endless) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.shows("session s1", "what you say", "you>")
        terminal.type("count to a million\r")
        await terminal.shows("4", "you>")
        terminal.type("that wi")
        await terminal.shows("4", "you> that wi")
        long = "4" + " and 5" * 40
        delta = {"type": "content", "task_id": "task-0-a", "step": 1, "attempt": 1}
        gateway.say("s1", {**delta, "offset": 1, "content": long[1:]})
        rows = [long[:97], long[98:197], long[198:]]
        assert long[97] == long[197] == " "
        await terminal.shows(*rows, "you> that wi")
        gateway.say("s1", {**delta, "offset": len(long), "content": "\nand on"})
        await terminal.shows(*rows, "and on", "you> that wi")
        terminal.type("ll do\r")
        await wait_until("the message", lambda: [m["content"] for m in gateway.messages][1:] == ["that will do"])


async def test_ctrl_c_leaves_what_is_typed_alone_and_at_an_idle_prompt_leaves(tmp_path: Path) -> None:
    async with fake_gateway(script=endless, on_cancel=cancelled) as gateway:
        async with Terminal("chat", gateway.url, tmp_path) as terminal:
            await terminal.shows("session s-", "what you say", "you>")
            terminal.type("count to a million\r")
            await terminal.shows("4", "you>")
            terminal.type("next")
            await terminal.shows("4", "you> next")
            terminal.type("\x03")
            await terminal.shows("cancelled", "you> next")
            terminal.type("\x03")
            await terminal.shows("cancelled", "you>")
            terminal.type("\x03")
            assert await terminal.code() == 0
        assert gateway.cancelled == ["task-0-a"]
        assert len(gateway.messages) == 1


async def test_leaving_while_the_agent_works_says_that_it_goes_on(tmp_path: Path) -> None:
    async with fake_gateway(script=endless) as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        await terminal.shows("session s-", "what you say", "you>")
        terminal.type("count to a million\r")
        await terminal.shows("4", "you>")
        terminal.type("\x04")
        assert await terminal.code() == 0
    assert gateway.cancelled == []
    assert terminal.rows[-1] == "the task goes on without you"


async def test_a_wrong_key_ends_a_conversation(tmp_path: Path) -> None:
    async with fake_gateway() as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        await terminal.shows("session s-", "what you say", "you>")
        gateway.key = "changed"
        terminal.type("6 * 7?\r")
        await terminal.sees("wants an API key: set PENTAD_API_KEY")
        assert await terminal.code() == 1


@pytest.mark.parametrize("typed", ["\x04", "tell me\r\x04"], ids=["Ctrl-D", "a line and Ctrl-D"])
async def test_keys_pressed_while_a_command_is_carried_out_are_the_next_prompts(tmp_path: Path, typed: str) -> None:
    async with (
        fake_gateway(script=endless) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.shows("session s1", "what you say", "you>")
        gateway.answering.clear()
        terminal.type("/tasks\r")
        await wait_until("the list to be asked for", lambda: gateway.held == 1)
        terminal.type(typed)
        gateway.answering.set()
        assert await terminal.code() == 0
    assert [m["content"] for m in gateway.messages] == (["tell me"] if "tell" in typed else [])


async def test_the_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    async with fake_gateway(script=endless) as gateway, Terminal("chat", gateway.url, tmp_path) as terminal:
        before = terminal.modes()
        await terminal.shows("session s-", "what you say", "you>")
        assert terminal.modes() != before
        terminal.type("\x04")
        assert await terminal.code() == 0
        assert terminal.modes() == before


async def test_leaving_says_that_a_message_was_not_taken(tmp_path: Path) -> None:
    async with (
        fake_gateway(script=lambda _: []) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.shows("session s1", "what you say", "you>")
        terminal.type("tell me\r\x04")
        await terminal.sees("no task has taken your last message yet: it may be lost")
        assert await terminal.code() == 0


PLAN = "# Plan\n**Two** sums:\n- `6*7`\n- [more](http://x)"


async def test_markdown_is_read_while_it_streams_and_no_mark_is_ever_seen(tmp_path: Path) -> None:
    delta = {"type": "content", "task_id": "task-0-a", "step": 1, "attempt": 1}
    async with (
        fake_gateway(script=lambda message: endless(message)[:2]) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.shows("session s1", "what you say", "you>")
        terminal.type("plan\r")
        await terminal.sees("thinking")
        for at, character in enumerate(PLAN):
            gateway.say("s1", {**delta, "offset": at, "content": character})
        await terminal.sees("http://x")
        await terminal.shows("Plan", "Two sums:", "• 6*7", "• more (http://x)", "you>")
        terminal.type("\x04")
        assert await terminal.code() == 0


async def test_a_line_without_an_end_is_drawn_at_a_bounded_cost_and_none_of_it_is_lost(tmp_path: Path) -> None:
    delta = {"type": "content", "task_id": "task-0-a", "step": 1, "attempt": 1}
    words = "".join(f"w{number} " for number in range(10_000))
    async with (
        fake_gateway(script=lambda message: endless(message)[:2]) as gateway,
        Terminal("chat", gateway.url, tmp_path, session="s1") as terminal,
    ):
        await terminal.shows("session s1", "what you say", "you>")
        terminal.type("all words\r")
        await terminal.sees("thinking")
        for at in range(0, len(words), 500):
            gateway.say("s1", {**delta, "offset": at, "content": words[at : at + 500]})
        await terminal.sees("w9000")
        await wait_until("the end", lambda: any("w9999" in row for row in terminal.rows))
        assert terminal.rows[0].startswith("w"), "what was before the last rows has moved up for good"
        terminal.type("\x04")
        assert await terminal.code() == 0
    assert terminal.rows[-1] == "the task goes on without you"
