"""``make run`` from a fresh copy with an empty home, and what becomes of a conversation that is stopped or killed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import SIGTERM

import pytest

from tests.support.clients.api import Api
from tests.support.clients.line import Event, Line
from tests.support.ports import free_port
from tests.support.processes.stage import PLUGINS
from tests.support.processes.up import PENTAD, ROOT, Up
from tests.support.redis.raw_redis import events_of
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

QUESTION = "what is (15+27)*3-42/6?"
FRESH = bool(os.environ.get("PENTAD_TEST_FRESH"))
SECOND_START_S = 20.0
"""Two or three as a rule; more where the machine is busy."""


def copy_of_the_repository(to: Path) -> Path:
    """What a clone of the working tree would hold; without git everything but what a clone never holds."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, check=False) if (ROOT / ".git").exists() else None
    if listed is None or listed.returncode != 0:
        return Path(shutil.copytree(ROOT, to, True, shutil.ignore_patterns(".venv", ".pentad", ".git", ".*_cache")))
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    return to


def lend_the_environment(copy: Path) -> None:
    """Spare the copy its ``make setup``: it borrows the programs of this one, marked as newly installed."""
    environment = copy / ".venv"
    environment.mkdir()
    (environment / "bin").symlink_to(Path(sys.executable).parent)
    (environment / ".installed").touch()


def made(copy: Path, home: Path) -> Up:
    """``make run`` in a copy, with no setting of ours and an empty home."""
    home.mkdir(exist_ok=True)
    paths = {"HOME": str(home), "PYTHONPATH": "" if FRESH else str(copy), "PENTAD_DATA_DIR": ""}
    up = Up(copy, paths, ["make", "run", f"ARGS=--port {free_port()}"])
    up.data = copy / ".pentad"
    return up


async def ask(url: str, session: str, content: str) -> Event:
    """One turn by REST; asserts that it was answered."""
    async with Api(url) as api:
        turn: Event = await api.post("/v1/messages?wait=20", {"content": content, "session_id": session}, status=200)
    assert turn["events"][-1]["type"] == "task_end", turn
    return turn


def calls(turn: Event) -> list[tuple[str, str]]:
    """The tools that a turn called, with their results."""
    return [(e["tool"], e["result"]) for e in turn["events"] if e["type"] == "tool_result"]


async def test_a_fresh_copy_answers_with_the_calculator_and_no_key(tmp_path: Path) -> None:
    copy = copy_of_the_repository(tmp_path / "copy")
    if not FRESH:
        lend_the_environment(copy)
    with made(copy, tmp_path / "home") as first:
        starts = [await first.started(seconds=300 if FRESH else PATIENCE_S)]
        turn = await ask(first.url, "s1", QUESTION)
        assert "119" in turn["answer"]
        assert calls(turn) == [("calculator", "119")]
        first.ctrl_c()
        await first.ended()
        assert first.descendants() == [], "Ctrl-C left processes"
        first.start()
        starts.append(await first.started())
        turn = await ask(first.url, "s1", "and times 2?")
        first.signal(SIGTERM)
        await first.ended()
        assert first.descendants() == [], "SIGTERM left processes"
    print(f"make run: ready after {starts[0]:.2f} s, again after {starts[1]:.2f} s; then {turn['answer']!r}")
    assert starts[1] < SECOND_START_S
    assert calls(turn) == [("calculator", "238")]
    if not FRESH:
        assert list((tmp_path / "home").iterdir()) == [], "something was written to the home"


async def test_the_second_on_a_data_directory_says_so_and_ends(tmp_path: Path) -> None:
    with Up(tmp_path / "one") as first:
        await first.ready()
        same = {"PENTAD_DATA_DIR": str(first.data)}
        with Up(tmp_path / "two", same) as second:
            code = await second.ended()
        (line,) = second.err.splitlines()
        print(f"exit {code}: {line}")
        assert code == 1
        assert str(first.pid) in line
        assert "already runs" in line
        assert calls(await ask(first.url, "s1", QUESTION)) == [("calculator", "119")]


@pytest.mark.parametrize("kill", [False, True], ids=["Ctrl-C", "kill -9"])
async def test_a_half_finished_task_and_its_conversation_survive(tmp_path: Path, kill: bool) -> None:
    gate = tmp_path / "gate"
    # Redis is killed too: what it confirmed is there again if it was written first (docs: PENTAD_REDIS_FSYNC).
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS, "PENTAD_REDIS_FSYNC": "always"}) as system:
        url = await system.ready()
        assert "119" in (await ask(url, "s1", QUESTION))["answer"]
        async with Line(url, "s1") as line:
            await line.say(f"please wait_for_file {gate}")
            await line.until("tool_call")
            await wait_until("the tool to begin", gate.exists)
            cursor = line.cursor
        died = await stop(system, kill)
        system.start()
        seconds = await system.started()
        async with Line(system.url, "s1", after=cursor) as line:
            await wait_until("the tool to run again", lambda: gate.read_text().count("begun") == 2)
            with gate.open("a") as file:
                file.write("go\n")
            end = await line.until("task_end")
            assert [e["result"] for e in line.answers("tool_result")] == ["the file says go"]
            assert end["status"] == "completed"
        # The whole conversation is there: before, across, and after.
        after = await ask(system.url, "s1", "what is 6*7?")
        events = await events_of(system.redis_url, "s1")
        async with Api(system.url) as api:
            turns = (await api.get("/v1/sessions/s1/messages"))["items"]
    print(f"{died} processes ended, ready again after {seconds:.2f} s, {len(events)} events in the session")
    assert seconds < SECOND_START_S
    assert calls(after) == [("calculator", "42")]
    assert turns[0]["content"] == QUESTION
    assert once(events)


async def stop(system: Up, kill: bool) -> int:
    """End the system and everything that it started; returns how many processes that were."""
    if kill:
        return system.kill_everything()
    number = 1 + len(system.descendants())
    system.ctrl_c()
    assert await system.ended() == 0, system.err
    assert system.descendants() == [], "Ctrl-C left processes"
    return number


def once(events: Sequence[Event]) -> bool:
    """Three turns, each with one end; one result for a call."""
    kinds = [e["type"] for e in events]
    results = [e["tool_call_id"] for e in events if e["type"] == "tool_result"]
    return kinds.count("task_end") == 3 == kinds.count("task_start") and len(results) == 3 == len(set(results))


async def test_the_command_itself_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}, [str(PENTAD), "up", "--port", "0"]) as system:
        await system.ready()
        started = len(system.descendants())
        system.signal(SIGTERM)
        assert await system.ended() == 0, system.err
        assert system.descendants() == []
    print(f"{started} processes were started by it, none is left")
    assert started >= 3, "no Redis, no tools' processes: this test sees nothing"
