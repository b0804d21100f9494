"""`pentad send`, `tasks`, `task`, `cancel` against a gateway on a real socket."""

import argparse
import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import pentad
from pentad.cli import client_results, send, tasks
from pentad.shared.settings import Settings
from tests.support.clients.fake_gateway import FakeGateway, endless, fake_gateway, task, turn_events
from tests.support.ports import free_port
from tests.support.waiting import in_time

Command = Callable[[argparse.Namespace, Settings], int]
DEFAULTS: dict[str, Any] = dict.fromkeys(
    (
        *(
            "url",
            "session",
            "user",
            "task",
            "instruction",
            "status",
            "since",
            "until",
            "limit",
            "id",
            "timeout",
            "step",
            "state",
        ),
        *("fork", "compare", "content", "model"),
    ),
    None,
)


async def command(run: Command, gateway: FakeGateway | None, **given: Any) -> int:
    """Run a command as the command line would, in a thread with a loop of its own."""
    options = {
        "json": False,
        "debug": False,
        "prompt": False,
        "path": False,
        "mermaid": False,
        "watch": False,
        "limit": 100,
    }
    args = argparse.Namespace(**(DEFAULTS | options | given))
    settings = Settings(pentad_url=gateway.url) if gateway else Settings()
    async with in_time():
        return await asyncio.to_thread(run, args, settings)


def ending(**end: Any) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """A turn with an answer whose end is another one."""
    return lambda message: [*list(turn_events()(message))[:-1], {"task_id": "task-0-a"} | end]


async def test_send_prints_the_answer_alone_when_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway() as gateway:
        assert await command(send.run, gateway, text="6 * 7?", session="s1", task="task-0-a") == 0
    assert tuple(capsys.readouterr()) == ("42\n", "")
    [message] = gateway.messages
    assert (message["content"], message["task_id"], gateway.connections[0]["session_id"]) == (
        "6 * 7?",
        "task-0-a",
        "s1",
    )


@pytest.mark.parametrize("failed", [False, True])
async def test_a_call_is_answered_in_place_of_the_application_that_asked(
    capsys: pytest.CaptureFixture[str], failed: bool
) -> None:
    about = {"task": "task-0-a", "call": "c0", "text": "in Berlin", "failed": failed}
    async with fake_gateway() as gateway:
        assert await command(client_results.run, gateway, **about) == 0
    assert capsys.readouterr().out == "c0 has its result\n"
    assert gateway.results == [("c0", {"error" if failed else "result": "in Berlin"})]


async def test_send_prints_the_text_of_each_step_once(capsys: pytest.CaptureFixture[str]) -> None:
    def three_steps(message: dict[str, Any]) -> list[dict[str, Any]]:
        about = {"type": "message", "task_id": "task-0-a", "attempt": 1}
        first = list(turn_events()(message))
        return [
            *first[:2],
            about | {"step": 1, "content": "Let me see."},
            about | {"step": 2, "content": ""},
            *({**delta, "step": 3} for delta in first[2:4]),
            about | {"step": 3, "content": "42"},
            first[-1],
        ]

    async with fake_gateway(script=three_steps, cut_after=deque([5])) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == 0
    assert tuple(capsys.readouterr()) == ("Let me see.\n42\n", "")


async def test_send_prints_what_was_said_while_it_was_away(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"role": "assistant", "task_id": "task-0-a", "content": "42"}
    async with fake_gateway(
        cut_after=deque([2]), snapshot={"tasks": [task("task-0-a")], "messages": [said]}
    ) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == 0
    assert tuple(capsys.readouterr()) == ("42\n", "")


async def test_send_json_prints_every_event_with_its_cursor_across_a_cut(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway(cut_after=deque([3])) as gateway:
        assert await command(send.run, gateway, text="6 * 7?", session="s1", json=True) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == gateway.events["s1"]


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ({"type": "task_end", "status": "failed", "reason": "model_error"}, 1, "failed: model_error\n"),
        (
            {
                "type": "task_end",
                "status": "failed",
                "reason": "model_error",
                "detail": "401: check the \x1b[2JAPI key",
            },
            1,
            "failed: model_error: 401: check the [2JAPI key\n",
        ),
        ({"type": "task_end", "status": "cancelled"}, 1, "cancelled\n"),
        ({"type": "task_status", "status": "waiting", "reason": "question"}, 0, "waiting for you: question\n"),
    ],
)
async def test_send_says_by_its_exit_code_how_the_turn_ended(
    end: dict[str, Any], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fake_gateway(script=ending(**end)) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == code
    assert tuple(capsys.readouterr()) == ("42\n", said)


async def test_send_fails_when_the_message_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway(script=turn_events(decision="rejected", reason="cancelled task")) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == 1
    assert tuple(capsys.readouterr()) == ("", "rejected: cancelled task\n")
    busy = {"code": "busy", "message": "too much waits", "retry_after": 2}
    async with fake_gateway(error_frames=deque([busy])) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == 1
    assert tuple(capsys.readouterr()) == ("", "error: busy: too much waits\n")


async def test_a_task_says_why_it_has_failed_in_the_list_and_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    failed = task("task-0-a", "failed") | {"reason": "model_error", "detail": "401: check the API key"}
    moved = task("task-0-b", "cancelled") | {"reason": "moved"}
    async with fake_gateway() as gateway:
        gateway.tasks = {"task-0-a": failed, "task-0-b": moved, "task-0-c": task("task-0-c") | {"reason": "answered"}}
        await command(tasks.run_tasks, gateway)
        rows = capsys.readouterr().out.splitlines()[1:]
        await command(tasks.run_task, gateway, id="task-0-a")
        details = capsys.readouterr().out
        await command(tasks.run_task, gateway, id="task-0-a", json=True)
        shown = json.loads(capsys.readouterr().out)
    assert ["(model_error) 6 * 7? · 401" in rows[0], "(moved) 6 * 7?" in rows[1], "(" in rows[2]] == [True, True, False]
    assert "model_error: 401: check the API key" in details
    assert (shown["detail"], shown["status"], shown["messages"]) == ("401: check the API key", "failed", [])


async def test_a_message_to_a_task_needs_no_session() -> None:
    async with fake_gateway() as gateway:
        gateway.tasks = {"task-0-a": task("task-0-a", session_id="alice")}
        assert await command(send.run, gateway, text="6 * 7?", task="task-0-a") == 0
        async with pentad.connect(gateway.url) as agent:
            assert await agent.ask("6 * 7?", task_id="task-0-a") == "42"
            with pytest.raises(pentad.NotFound):
                await agent.ask("6 * 7?", task_id="task-0-b")
            with pytest.raises(pentad.Refused, match="session"):
                agent.turn("6 * 7?", task_id="task-0-a")
    assert [query["session_id"] for query in gateway.connections] == ["alice", "alice"]


async def test_send_waits_no_longer_than_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {
        "type": "task_status",
        "task_id": "task-0-a",
        "status": "active",
        "reason": "the model is asked again: 503",
    }
    async with fake_gateway(script=lambda m: [*endless(m)[:2], asked, asked]) as gateway:
        assert await command(send.run, gateway, text="6 * 7?", timeout=0.3) == 1
    assert capsys.readouterr().err == (
        "the model is asked again: 503\nno answer within 0.3 s: the task goes on: `pentad cancel task-0-a` stops it\n"
    )


async def test_the_url_of_the_command_line_wins() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with fake_gateway() as gateway:
        with pytest.raises(pentad.GatewayUnreachable, match=url):
            await command(send.run, gateway, text="6 * 7?", url=url)


async def test_tasks_is_a_table_over_all_pages(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks = {name: task(name, status) for name, status in [("task-0-a", "active"), ("task-0-b", "failed")]}
        assert await command(tasks.run_tasks, gateway) == 0
        header, *rows = capsys.readouterr().out.splitlines()
        assert await command(tasks.run_tasks, gateway, status="failed", limit=1) == 0
        assert capsys.readouterr().out.splitlines()[1:] == rows[1:]
        gateway.tasks = {f"task-0-{n}": task(f"task-0-{n}") for n in range(230)}
        assert await command(tasks.run_tasks, gateway, limit=220) == 0
        assert len(capsys.readouterr().out.splitlines()) == 221
        gateway.tasks.clear()
        assert await command(tasks.run_tasks, gateway) == 0
    assert header.split() == ["TASK", "STATUS", "SESSION", "STEPS", "AGE", "UPDATED", "GOAL"]
    assert [row.split()[:3] for row in rows] == [["task-0-a", "active", "s1"], ["task-0-b", "failed", "s1"]]
    assert capsys.readouterr().out == "no tasks\n"


async def test_task_shows_its_transcript_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "calculator", "arguments": '{"expression":"6*7"}'}}
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        gateway.transcripts["task-0-a"] = [
            {"role": "user", "content": "Recalled", "origin": "recalled"},
            {"role": "user", "content": "6 * 7?"},
            {"role": "assistant", "content": None, "tool_calls": [call], "step": 1, "model": "offline"},
            {"role": "tool", "tool_call_id": "c", "content": "42\x1b[2J"},
            {"role": "assistant", "content": "It is\n42.", "step": 2},
            {"role": "exclusion", "positions": [0, 1], "to": "new", "to_task_id": "task-0-b", "message_id": "m1"},
        ]
        assert await command(tasks.run_task, gateway, id="task-0-a") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[shown.index("") + 1 :] == [
        "memory",
        "  Recalled",
        "you",
        "  6 * 7?",
        "agent  step 1 · offline",
        '  ⚙ calculator({"expression":"6*7"})',
        "tool",
        "  42[2J",
        "agent  step 2",
        "  It is",
        "  42.",
        "moved",
        "  m1 to task-0-b; prompts leave out: 0, 1",
    ]


async def test_task_shows_what_a_step_asked_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "calculator", "arguments": '{"expression":"6*7"}'}}
    prompt = {
        "task_id": "task-0-a",
        "step": 2,
        "at": "2030-01-01T00:00:00.000Z",
        "instruction": "executor",
        "instruction_version": "0a",
        "model": "big-model",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "42\x1b[2J\nwhole"},
        ],
        "tools": [{"type": "function", "function": {"name": "calculator"}}],
        "tool_choice": "none",
        "digest": "d1",
        "proved": False,
    }
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        gateway.prompts["task-0-a", 2] = prompt
        assert await command(tasks.run_task, gateway, id="task-0-a", step=2, prompt=True) == 0
        shown = capsys.readouterr().out.splitlines()
        assert await command(tasks.run_task, gateway, id="task-0-a", step=2, prompt=True, json=True) == 0
        assert json.loads(capsys.readouterr().out)["messages"] == prompt["messages"]
        with pytest.raises(pentad.NotFound):
            await command(tasks.run_task, gateway, id="task-0-a", step=3, prompt=True)
        for alone in ({"step": 2}, {"prompt": True}):
            with pytest.raises(pentad.Refused, match="--step N and --prompt go together"):
                await command(tasks.run_task, gateway, id="task-0-a", **alone)
    assert "tools       calculator (not to be called any more)" in shown
    assert "digest      d1 (NOT proved: what is kept has another digest)" in shown
    assert shown[shown.index("") + 1 :] == [
        "system",
        "  Be brief.",
        "assistant",
        '  ⚙ calculator {"expression":"6*7"}',
        "tool",
        "  42[2J",
        "  whole",
    ]


async def test_what_is_not_there_or_too_late_has_an_error_of_its_own() -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        with pytest.raises(pentad.NotFound, match="not found: there is no /v1/tasks/task-0-x"):
            await command(tasks.run_task, gateway, id="task-0-x")
        with pytest.raises(pentad.Conflict, match="task-0-a has ended"):
            await command(tasks.run_cancel, gateway, id="task-0-a")
        gateway.refuse.append((429, {"Retry-After": "3"}))
        with pytest.raises(pentad.Busy, match="try again in 3 s"):
            await command(tasks.run_tasks, gateway)


async def test_pause_and_resume_ask_the_task_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway() as gateway:
        assert await command(tasks.run_pause, gateway, id="task-0-r") == 0
        assert await command(tasks.run_resume, gateway, id="task-0-r") == 0
        async with pentad.connect(gateway.url) as agent:
            await agent.management.archive_task("task-0-r")
    assert gateway.asked == [("pause", "task-0-r"), ("resume", "task-0-r"), ("archive", "task-0-r")]
    assert capsys.readouterr().out == "task-0-r is being paused\ntask-0-r goes on\n"


async def test_cancel_asks_the_task_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway() as gateway:
        assert await command(tasks.run_cancel, gateway, id="task-0-r") == 0
    assert gateway.cancelled == ["task-0-r"]
    assert capsys.readouterr().out == "task-0-r is being cancelled\n"


async def test_move_asks_the_task_for_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway() as gateway:
        assert await command(tasks.run_move, gateway, message="m1", to="new", task="task-0-r") == 0
        assert await command(tasks.run_move, gateway, message="m1", to="task-0-b", task="task-0-r") == 0
    asked = {"message_id": "m1", "to": "new"}
    assert gateway.moved == [("task-0-r", asked), ("task-0-r", asked | {"to": "task-0-b"})]
    assert capsys.readouterr().out == "m1 is being moved to a new task\nm1 is being moved to task-0-b\n"


async def test_send_says_once_per_outage_that_it_tries_again(capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_gateway(cut_after=deque([2, 0, 0, 1, 0])) as gateway:
        assert await command(send.run, gateway, text="6 * 7?") == 0
    assert len(gateway.connections) == 6
    out, err = capsys.readouterr()
    assert out == "42\n"
    assert err == "no connection to the gateway: the connection closed (1006): trying again\n" * 2
