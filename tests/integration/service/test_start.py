"""``pentad.start()``: the whole system within a caller's program, which keeps its signals, its log and its errors."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pentad
from pentad.shared.embedded.data_dir import DataDirLock
from pentad.shared.errors import PentadError, SettingsError
from pentad.shared.service.options import Options
from pentad.shared.service.run import DiedError
from pentad.shared.settings import Settings
from pentad.system.start import running_system
from tests.integration.service.asking import get
from tests.integration.service.system import root
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, SLOW_START, wait_until

PROGRAM = '''
import asyncio, sys
import pentad

@pentad.tool(effect="pure")
async def weather(city: str) -> str:
    """Weather of a city right now."""
    return f"{city}: 21 degrees, clear"

async def main() -> None:
    async with pentad.start(sys.argv[1], pentad_tool_processes=1) as agent:
        print(await agent.ask("weather in Berlin?"))

if __name__ == "__main__":
    asyncio.run(main())
'''


async def program(folder: Path, text: str, *words: str) -> tuple[int, str, str]:
    """Run a program of the user's own; its exit code and what it said."""
    (folder / "my_program.py").write_text(text)
    command = [sys.executable, *(words or ("my_program.py",)), str(folder / "data")]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    told = [line for line in done.stderr.splitlines(keepends=True) if SLOW_START not in line]
    return done.returncode, done.stdout, "".join(told)


def left_by(folder: Path) -> list[str]:
    """What a system that runs has in its data directory."""
    return [name for name in ("gateway.url", "redis.url") if (folder / name).exists()]


def playing(folder: Path, play: str = "") -> Settings:
    """Settings of small services that do as the play says."""
    (folder / "play").write_text(play)
    return Settings(pentad_data_dir=folder)


async def test_a_program_talks_to_its_own_system_and_its_tools_are_called(tmp_path: Path) -> None:
    assert await program(tmp_path, PROGRAM) == (0, "weather: Berlin: 21 degrees, clear\n", "")
    assert left_by(tmp_path / "data") == []
    assert await program(tmp_path, PROGRAM, "-m", "my_program") == (0, "weather: Berlin: 21 degrees, clear\n", "")


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (
            PROGRAM.replace('if __name__ == "__main__":', "if True:"),
            (),
            'put the call under if __name__ == "__main__":',
        ),
        (PROGRAM, ("-",), "put it into a module of its own, my_tools.py, and name that: pentad.start(plugins=["),
        (
            "import asyncio, sys, pentad\ndef f():\n    @pentad.tool\n    def price() -> int: ...\nf()\n"
            "asyncio.run(pentad.start(sys.argv[1]).__aenter__())\n",
            (),
            "'price' is defined in a function: define it at the module's top",
        ),
    ],
    ids=["no guard", "standard input", "in a function"],
)
async def test_tools_that_no_other_process_can_import_are_refused_with_what_to_do(
    tmp_path: Path, text: str, words: tuple[str, ...], told: str
) -> None:
    code, _, err = await program(tmp_path, text, *words)
    assert code == 1
    assert told in err.splitlines()[-1]
    assert left_by(tmp_path / "data") == []


async def test_an_error_in_the_block_stops_everything_and_is_told(tmp_path: Path) -> None:
    async def block() -> None:
        async with pentad.start(tmp_path, plugins=["tests.fundamentals.my_tools"]) as agent:
            assert left_by(tmp_path) == ["gateway.url", "redis.url"]
            assert "weather" in {tool["name"] for tool in await agent.inspection.tools()}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    assert left_by(tmp_path) == []
    with DataDirLock(tmp_path):
        """Nobody has it any more."""


async def test_what_stands_in_the_env_file_holds_unless_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_STEP_LIMIT", "")  # so that it is as before afterwards
    monkeypatch.delenv("PENTAD_STEP_LIMIT")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("PENTAD_STEP_LIMIT=0\n")
    with pytest.raises(SettingsError, match="PENTAD_STEP_LIMIT is wrong"):
        async with pentad.start(tmp_path / "data"):
            raise AssertionError("it must not start")
    async with pentad.start(tmp_path / "data", pentad_step_limit=1) as agent:
        assert await agent.inspection.tasks() == []


async def test_the_conversation_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async with pentad.start(tmp_path) as agent:
        await agent.session("s").ask("what is 6*7?")
    async with pentad.start(tmp_path) as agent:
        assert await agent.session("s").ask("and times 2?") == "42*2 = 84"


async def test_the_second_on_a_data_directory_is_told_who_is_there(tmp_path: Path) -> None:
    async with pentad.start(tmp_path) as agent:
        with pytest.raises(SettingsError, match=f"process {os.getpid()} already runs on the data directory"):
            async with pentad.start(tmp_path):
                raise AssertionError("it must not start")
        assert await agent.ask("what is 6*7?") == "6*7 = 42"


async def test_the_caller_keeps_its_signals_its_log_and_its_garbage_collector(tmp_path: Path) -> None:
    gc.unfreeze()  # what the collection of tests has frozen
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    logger, handlers, frozen = logging.getLogger("pentad"), [*logging.getLogger().handlers], gc.get_freeze_count()
    level = logger.level
    async with pentad.start(tmp_path) as agent:
        await agent.ask("what is 6*7?")
        assert [signal.getsignal(number) for number in numbers] == before
        assert (logging.getLogger().handlers, logger.level) == (handlers, level)
        assert gc.get_freeze_count() == frozen


async def test_keys_of_the_environment_let_the_caller_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENTAD_API_KEYS", "sesame:acme,mellon:moria")
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "crown")
    async with RedisServer() as redis, pentad.start(tmp_path, redis_url=redis.url) as agent:
        assert await agent.ask("what is 6*7?") == "6*7 = 42"
        assert await agent.inspection.dead_letters() == []
        assert left_by(tmp_path) == ["gateway.url"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"grace_s": 1}, "pentad.start() knows no setting 'grace_s'"),
        ({"pentad_grace_s": -1}, "PENTAD_GRACE_S is wrong"),
        ({"plugins": ["no_such_module"]}, "plugin 'no_such_module' was not found"),
    ],
)
async def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, settings: dict[str, object], told: str) -> None:
    with pytest.raises(PentadError) as caught:
        async with pentad.start(tmp_path, **settings):  # type: ignore[arg-type]
            raise AssertionError("it must not start")
    assert str(caught.value).startswith(told)
    assert left_by(tmp_path) == []


async def test_a_service_that_dies_ends_the_block_with_its_name(tmp_path: Path) -> None:
    async def block() -> None:
        async with running_system(playing(tmp_path), Options(port=0), root) as url:
            assert (await get(f"{url}/readyz"))[0] == 200
            (tmp_path / "play").write_text("embedding die\n")
            await asyncio.Event().wait()

    with pytest.raises(DiedError, match="embedding has died"):
        await asyncio.wait_for(block(), PATIENCE_S)
    assert left_by(tmp_path) == []


async def test_one_that_died_while_the_block_was_busy_is_told_at_its_end(tmp_path: Path) -> None:
    async def block(error: type[Exception] | None) -> None:
        async with running_system(playing(tmp_path), Options(port=0), root):
            (tmp_path / "play").write_text("embedding die\n")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if error is not None:
                    raise error("its own") from None

    with pytest.raises(DiedError, match="embedding has died"):
        await block(None)
    with pytest.raises(DiedError, match="embedding has died"):
        await block(pentad.GatewayUnreachable)
    with pytest.raises(ValueError, match="its own"):
        await block(ValueError)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


@pytest.mark.parametrize("play", ["", "archiver wait\n"], ids=["in the block", "while it starts"])
async def test_a_cancelled_caller_leaves_nothing(tmp_path: Path, play: str) -> None:
    async def block() -> None:
        async with running_system(playing(tmp_path, play), Options(port=0), root):
            await asyncio.Event().wait()

    running = asyncio.create_task(block())
    story, last = tmp_path / "story", "start gateway" if not play else "wait archiver"
    await wait_until(last, lambda: story.exists() and last in story.read_text().splitlines())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left_by(tmp_path) == []


async def test_a_start_that_fails_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PentadError, match="archiver cannot start: the play says so"):
        async with running_system(playing(tmp_path, "archiver fail\n"), Options(port=0), root):
            raise AssertionError("it must not start")
    assert left_by(tmp_path) == []
