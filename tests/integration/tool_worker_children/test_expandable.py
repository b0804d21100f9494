"""A class that is several tools, as a plug-in: its object is made once in a process, set up, shared and closed."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.services.tool_worker.children.pool import ToolProcesses
from tests.integration.tool_worker_children.conftest import Tools

PLUGIN = """
import os, pathlib, pentad

class Till(pentad.ExpandableTool):
    def __init__(self):
        self.sum = 0

    async def setup(self):
        if os.path.exists("locked"):
            os.remove("locked")
            raise RuntimeError("it is locked")
        if os.path.exists("stuck"):
            import asyncio
            os.remove("stuck")
            await asyncio.Event().wait()
        pathlib.Path("story").open("a").write(f"open {os.environ.get('TILL_KEY')}\\n")

    async def close(self):
        pathlib.Path("story").open("a").write(f"closed with {self.sum}\\n")

    @pentad.action(env=["TILL_KEY", "TILL_CODE"])
    async def add(self, cents: int) -> int:
        self.sum += cents
        return self.sum

    @pentad.action(effect="pure")
    def look(self) -> list[int]:
        return [self.sum, os.getpid()]

    @pentad.action(effect="pure", isolated=True)
    def elsewhere(self) -> list[int]:
        return [self.sum, os.getpid()]

class Vault(pentad.ExpandableTool):
    def __init__(self, code):
        self.code = code

    @pentad.action
    def open(self): ...
"""


@asynccontextmanager
async def tilling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tools]:
    (folder / "till_plugin.py").write_text(PLUGIN)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TILL_KEY", "k")
    monkeypatch.delenv("TILL_CODE", raising=False)
    pool = ToolProcesses(["till_plugin"], 1, 2)
    await pool.start(lambda: None)
    try:
        yield Tools(pool)
    finally:
        await pool.stop(0)


async def test_the_actions_share_one_object_that_is_set_up_once_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tilling(tmp_path, monkeypatch) as tools:
        assert set(tools.pool.tools) == {"till_add", "till_look", "till_elsewhere"}
        assert not (tmp_path / "story").exists()  # nobody has called it
        assert await tools.result("till_add", cents=5) == "5"
        assert await tools.result("till_add", cents=2) == "7"
        total, process = json.loads(await tools.result("till_look"))
        other, another = json.loads(await tools.result("till_elsewhere"))
        assert (total, other) == (7, 0)
        assert process != another
    story = (tmp_path / "story").read_text().splitlines()
    assert sorted(story) == ["closed with 0", "closed with 7", "open k", "open k"]


@pytest.mark.parametrize("tool", ["till_look", "till_add"])
async def test_a_setup_that_fails_is_the_error_of_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    args: dict[str, object] = {"cents": 1} if tool == "till_add" else {}
    async with tilling(tmp_path, monkeypatch) as tools:
        (tmp_path / "locked").touch()
        outcome = await tools.run(tool, **args)  # type: ignore[arg-type]
        assert (outcome.kind, outcome.text) == ("error", "Till could not be set up: RuntimeError: it is locked")
        assert (await tools.run(tool, **args)).kind == "ok"  # type: ignore[arg-type]


async def test_a_call_that_waits_for_the_setup_ends_at_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tilling(tmp_path, monkeypatch) as tools:
        (tmp_path / "stuck").touch()
        assert (await tools.run("till_look", timeout_s=0.1)).kind == "timeout"
        assert (await tools.run("till_look", timeout_s=0.1)).kind == "timeout"


async def test_variables_that_are_missing_are_known_of_each_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tilling(tmp_path, monkeypatch) as tools:
        assert tools.pool.tools["till_add"].missing_env == ["TILL_CODE"]
        assert tools.pool.tools["till_look"].missing_env == []


async def test_a_class_that_needs_arguments_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("pentad").setLevel(logging.INFO)
    try:
        async with tilling(tmp_path, monkeypatch):
            pass
    finally:
        logging.getLogger("pentad").setLevel(logging.NOTSET)
    told = "till_plugin.Vault is no tool of a plug-in, because it cannot be made without arguments"
    assert told in capfd.readouterr().err
