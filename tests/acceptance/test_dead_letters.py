"""Law 8: what was set aside is looked at, mended and sent again with the commands; killed and repeated, it is once."""

import asyncio
import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.processes.up import PENTAD, Up
from tests.support.redis.raw_redis import dead_letters, events_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

INBOUND = [
    '{"content":7,"session_id":"s0"}',
    '{"content":"","session_id":"s1"}',
    '{"session_id":"s2","text":"what is 6*7?"}',
    "rubbish",
]
KILLED = 4


class Terminal:
    """Runs `pentad dlq` against a system."""

    def __init__(self, system: Up, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENTAD_", "REDIS_"))}
        self._env = kept | {"PENTAD_URL": system.url, "PENTAD_ADMIN_KEY": "root"}
        self._folder = folder

    async def start(self, *words: str, **env: str) -> asyncio.subprocess.Process:
        """Start a command."""
        pipe = asyncio.subprocess.PIPE
        env = self._env | env
        return await asyncio.create_subprocess_exec(
            str(PENTAD), "dlq", *words, stdout=pipe, stderr=pipe, cwd=self._folder, env=env
        )

    async def run(self, *words: str, **env: str) -> tuple[int | None, str, str]:
        """Run a command to its end: exit code, what it printed, what it complained of."""
        process = await self.start(*words, **env)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    async def shown(self, letter: str) -> dict[str, Any]:
        """A dead letter as `show --json` prints it."""
        found: dict[str, Any] = json.loads((await self.run("show", letter, "--json"))[1])
        return found

    async def listed(self) -> list[dict[str, Any]]:
        """What `list --json` prints."""
        return [json.loads(line) for line in (await self.run("list", "--json"))[1].splitlines()]


async def test_inbound_entries_are_shown_edited_redriven_and_answered(tmp_path: Path) -> None:
    with Up(tmp_path, {"PENTAD_ADMIN_KEY": "root"}) as system:
        await system.ready()
        terminal = Terminal(system, tmp_path)
        async with Redis.from_url(system.redis_url) as redis:
            for data in INBOUND:
                await redis.xadd("pentad:inbound", {"data": data})
        await wait_until("the dead letters", lambda: _count(system, len(INBOUND)))
        code, _, err = await terminal.run("list", PENTAD_ADMIN_KEY="guessed")
        assert (code, "PENTAD_ADMIN_KEY" in err, len(err.splitlines())) == (1, True, 1)
        letters = {json.loads(x["body"]["data"])["session_id"]: x for x in await _readable(terminal)}
        assert sorted(letters) == ["s0", "s1", "s2"]
        for session, letter in letters.items():
            edit = letter["redrive"]["body"] | {"content": "what is 6*7?"}
            (file := tmp_path / f"{session}.json").write_text(json.dumps(edit))
            if session == "s0":
                assert (await terminal.run("redrive", letter["id"]))[0] == 1  # as it was, it does not fit
            code, out, err = await terminal.run("redrive", letter["id"], "--edit", str(file))
            assert (code, session in out) == (0, True), err
        code, _, err = await terminal.run("redrive", letters["s0"]["id"], "--edit", str(tmp_path / "s0.json"))
        assert (code, "redriven before" in err) == (1, True)
        for session in letters:
            answers = await wait_until("the answer", partial(_answers, system, session))
            assert [("42" in answer) for answer in answers] == [True]
        (rest,) = await terminal.listed()
        assert (await terminal.run("discard", rest["id"]))[0] == 0
        assert (await terminal.run("list"))[1] == "no dead letters\n"


@pytest.mark.slow
async def test_the_command_and_the_system_are_killed_in_the_middle_and_it_is_answered_once(tmp_path: Path) -> None:
    with Up(tmp_path, {"PENTAD_ADMIN_KEY": "root"}) as system:
        await system.ready()
        async with Redis.from_url(system.redis_url) as redis:
            for n in range(KILLED):
                await redis.xadd("pentad:inbound", {"data": json.dumps({"session_id": f"s{n}"})})
        await wait_until("the dead letters", lambda: _count(system, KILLED))
        file = tmp_path / "edit.json"
        letters = await Terminal(system, tmp_path).listed()
        for n, letter in enumerate(letters):
            file.write_text(json.dumps({"content": "what is 6*7?", "session_id": letter["session_id"]}))
            command = await Terminal(system, tmp_path).start("redrive", letter["id"], "--edit", str(file))
            await wait_until("the redrive to begin", partial(_begun, system, letter["id"], command))
            if n % 2:
                with suppress(ProcessLookupError):
                    command.kill()
            else:
                system.kill_everything()
                system.start()
                await system.ready()
            await command.communicate()
            await Terminal(system, tmp_path).run("redrive", letter["id"], "--edit", str(file))
        for letter in letters:
            answers = await wait_until("the answer", partial(_answers, system, letter["session_id"]))
            assert len(answers) == 1
        assert await Terminal(system, tmp_path).listed() == []


async def _count(system: Up, wanted: int) -> bool:
    return len(await dead_letters(system.redis_url)) == wanted


async def _readable(terminal: Terminal) -> list[dict[str, Any]]:
    """The dead letters that are JSON."""
    found = [await terminal.shown(letter["id"]) for letter in await terminal.listed()]
    return [letter for letter in found if "body" in letter["redrive"]]


async def _answers(system: Up, session: str) -> list[str]:
    return [e["content"] for e in await events_of(system.redis_url, session) if e["type"] == "message" and e["content"]]


async def _begun(system: Up, letter: str, command: asyncio.subprocess.Process) -> bool:
    """What is sent was written down, or the command has ended."""
    async with Redis.from_url(system.redis_url) as redis:
        return bool(await redis.keys(f"*:redrive:{letter.partition('-')[2]}")) or command.returncode is not None
