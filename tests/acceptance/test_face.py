"""What a person meets who starts a system and talks to it from a second terminal."""

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.processes.stage import PLUGINS
from tests.support.processes.terminal import Terminal
from tests.support.processes.up import PENTAD, Up
from tests.support.redis.raw_redis import events_of
from tests.support.waiting import SLOW_START, wait_until

pytestmark = pytest.mark.acceptance


def pentad(up: Up, *words: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """A client command in a shell that knows nothing of the system but its data directory."""
    known = {"PATH": "/usr/bin:/bin", "HOME": str(up.folder), "PENTAD_DATA_DIR": str(up.data), "PYTHONUTF8": "1"}
    command = [str(PENTAD), *words]
    return subprocess.run(
        command, env=known | dict(environment or {}), capture_output=True, text=True, timeout=60, check=False
    )


async def test_a_client_finds_the_system_on_its_data_directory(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        url = await up.ready()
        assert (up.data / "gateway.url").read_text() == url
        answered = pentad(up, "send", "what is 6*7?")
        assert (answered.returncode, answered.stdout, answered.stderr) == (0, "6*7 = 42\n", "")
        up.kill_everything()
        left = pentad(up, "send", "what is 6*7?")
    assert left.returncode == 1
    (line,) = left.stderr.splitlines()
    assert line.startswith(f"pentad: no gateway answers at {url} (")
    assert f"{up.data / 'gateway.url'} names it, but the system that wrote it is gone: start it again" in line


@pytest.mark.parametrize(
    ("settings", "told", "warned"),
    [
        ({}, "model: the offline model, a rule-based stand-in", False),
        ({"LLM_MODEL_ID": "gpt-9"}, "model: the offline model, a rule-based stand-in", True),
        (
            {"LLM_MODEL_ID": "gpt-9", "LLM_API_KEY": "sk-hidden"},
            "model: gpt-9 at https://api.openai.com/v1",
            False,
        ),
        ({"LLM_BASE_URL": "http://me:hidden@127.0.0.1:9/v1"}, "model: the first model of http://127.0.0.1:9/v1", False),
    ],
    ids=["nothing", "an id alone", "id and key", "an endpoint alone"],
)
async def test_the_start_says_which_model_answers(
    tmp_path: Path, settings: dict[str, str], told: str, warned: bool
) -> None:
    with Up(tmp_path, settings) as up:
        url = await up.ready()
        tools = "calculator, get_time, echo, memory_note, memory_search, memory_expand, memory_forget, result_read"
        tools += ", file_read, file_list, file_search, file_write"
        assert up.out == f"{told}\ntools: {tools}\nready on {url}\n"
        assert ("LLM_MODEL_ID alone leaves the offline model on" in up.err) is warned
        lines = [line for line in up.err.splitlines() if " INFO " not in line and SLOW_START not in line]
        assert len(lines) == warned
        assert "hidden" not in up.out + up.err


async def test_what_is_typed_while_a_tool_runs_joins_its_task(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}) as up:
        async with Terminal("chat", await up.ready(), tmp_path) as terminal:
            await terminal.shows("you>")
            terminal.type(f"please wait_for_file {gate}\r")
            await wait_until("the tool to begin", gate.exists)
            terminal.type("what is 6*7?\r")
            await terminal.sees("→ added to what runs")
            with gate.open("a") as file:
                file.write("go\n")
            await terminal.sees("the file says go")
            await terminal.sees("6*7 = 42")
            await terminal.shows("you>")
            terminal.type("\x04")
            assert await terminal.code() == 0
        listed = pentad(up, "tasks")
    assert len(listed.stdout.splitlines()) == 2, f"one task, below the header: {listed.stdout}"


async def test_coming_back_to_a_session_follows_the_task_that_was_left_running(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}) as up:
        url = await up.ready()
        async with Terminal("chat", url, tmp_path, session="s1") as terminal:
            await terminal.shows("you>")
            terminal.type(f"please wait_for_file {gate}\r")
            await wait_until("the tool to begin", gate.exists)
            terminal.type("\x04")
            await terminal.sees("the task goes on without you")
            assert await terminal.code() == 0
        async with Terminal("chat", url, tmp_path, session="s1") as terminal:
            await terminal.sees("is still running")
            await terminal.sees("working")
            with gate.open("a") as file:
                file.write("go\n")
            await terminal.sees("wait_for_file: the file says go")  # the answer, not the tool's result
            await terminal.shows("you>")
            terminal.type("\x04")
            assert await terminal.code() == 0


async def test_send_prints_all_that_the_agent_says_in_a_turn_that_another_message_joined(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}) as up:
        await up.ready()
        first = asyncio.create_task(
            asyncio.to_thread(pentad, up, "send", f"please wait_for_file {gate}", "--session", "s1")
        )
        await wait_until("the tool to begin", gate.exists)
        second = asyncio.create_task(asyncio.to_thread(pentad, up, "send", "what is 6*7?", "--session", "s1"))
        await wait_until("it to join", lambda: joined(up))
        with gate.open("a") as file:
            file.write("go\n")
        told = [(await done).stdout for done in (first, second)]
    assert told[0] == told[1]
    assert told[0].index("the file says go") < told[0].index("6*7 = 42")
    assert told[0].count("42") == 1


async def joined(up: Up) -> bool:
    events = await events_of(up.redis_url, "s1")
    return [event.get("decision") for event in events if event["type"] == "message_routed"] == ["new", "append"]


async def test_the_doctor_tells_the_model_of_the_running_system_whatever_its_shell_is_set_to(tmp_path: Path) -> None:
    async with ScriptedModel(lambda request: say("hello")) as model:
        set_to = {"LLM_BASE_URL": model.base_url, "LLM_MODEL_ID": "gpt-9", "LLM_API_KEY": "sk-hidden"}
        with Up(tmp_path, set_to) as up:
            await up.ready()

            async def tells_it(**environment: str) -> bool:
                """A machine that is busy may give the model no time to answer the doctor."""
                report = (await asyncio.to_thread(pentad, up, "doctor", environment=environment)).stdout
                assert "embedded: simple-384" in report
                assert "hidden" not in report
                told = [line for line in report.splitlines() if " model " in line]
                return any("gpt-9" in line and model.base_url in line for line in told)

            await wait_until("the doctor to tell it", tells_it)
            await wait_until("it in another shell too", lambda: tells_it(LLM_BASE_URL="http://127.0.0.1:9"))


async def test_a_misspelt_variable_is_told_at_the_start(tmp_path: Path) -> None:
    with Up(tmp_path, {"PENTAD_SHARD": "2"}) as up:
        await up.ready()
        told, *started = up.err.splitlines()
    assert told == "pentad: PENTAD_SHARD is not a setting and is ignored: did you mean PENTAD_SHARDS?"
    assert all(" INFO pentad." in line for line in started)
