"""Plug-ins that change while the worker runs: new calls run the new code, calls under way finish on the old."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.services.tool_worker.children.pool import MOST_CHILDREN, ToolProcesses
from pentad.shared.plugins.errors import PluginError
from tests.integration.tool_worker_children.conftest import Tools, alive
from tests.support.waiting import wait_until

PLUGIN = """
import os, pathlib, pentad, price_list

@pentad.tool(effect="pure")
async def price() -> int:
    return price_list.TEA

@pentad.tool(effect="pure")
async def process() -> int:
    return os.getpid()

@pentad.tool(effect="pure", isolated=True)
def own_price() -> int:
    return price_list.TEA

@pentad.tool(effect="pure")
def old_price(fifo: str) -> int:
    with open(fifo) as file:
        file.read()
    return price_list.TEA
"""


def write(folder: Path, tea: str, plugin: str = PLUGIN) -> None:
    (folder / "changing_plugin.py").write_text(plugin)
    (folder / "price_list.py").write_text(f"TEA = {tea}\n")


class Changing(Tools):
    """A pool whose plug-in the test rewrites."""

    def __init__(self, pool: ToolProcesses, folder: Path) -> None:
        super().__init__(pool)
        self.folder = folder
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1

    async def price(self) -> int:
        return int(await self.result("price"))

    async def process(self) -> int:
        return int(await self.result("process"))


@asynccontextmanager
async def changing(folder: Path, monkeypatch: pytest.MonkeyPatch, processes: int = 1) -> AsyncIterator[Changing]:
    write(folder, "4")
    monkeypatch.chdir(folder)
    pool = ToolProcesses(["changing_plugin"], processes, 4, changing=True)
    tools = Changing(pool, folder)
    await pool.start(tools.changed)
    try:
        yield tools
    finally:
        await pool.stop(0)


async def test_new_calls_run_what_the_files_say_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with changing(tmp_path, monkeypatch) as tools:
        first = await tools.process()
        assert await tools.price() == 4
        for price in range(5, 8):  # of the same size, and within the same second
            write(tmp_path, str(price))
            await tools.pool.reload()
            assert await tools.price() == price
            assert await tools.result("own_price") == str(price)
        assert tools.changes == 3
        await wait_until("the first process has ended", lambda: not alive(first))


async def test_a_call_under_way_finishes_on_the_old_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fifo: str
) -> None:
    async with changing(tmp_path, monkeypatch) as tools:
        first = await tools.process()
        old = asyncio.create_task(tools.result("old_price", fifo=fifo))
        writer = await asyncio.to_thread(Path(fifo).open, "w")  # open once the call reads
        with writer:
            write(tmp_path, "5")
            await tools.pool.reload()
            assert await tools.price() == 5
            assert alive(first)
        assert await old == "4"
        await wait_until("the old process has ended", lambda: not alive(first))


@pytest.mark.parametrize("wrong", ["TEA = = 5\n", "raise RuntimeError('not today')\n", "import no_such_module\n"])
async def test_one_that_does_not_import_is_told_and_the_old_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    async with changing(tmp_path, monkeypatch) as tools:
        (tmp_path / "price_list.py").write_text(wrong)
        with pytest.raises(PluginError, match="plugin 'changing_plugin' does not import"):
            await tools.pool.reload()
        assert await tools.price() == 4
        assert tools.changes == 0
        write(tmp_path, "5")
        await tools.pool.reload()
        assert await tools.price() == 5


async def test_tools_come_and_go_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with changing(tmp_path, monkeypatch) as tools:
        write(tmp_path, "4", "import pentad\n\n@pentad.tool\ndef other() -> str:\n    return 'other'\n")
        await tools.pool.reload()
        assert set(tools.pool.tools) == {"other"}
        assert (await tools.run("price")).text == "tool 'price' is unknown here"


async def test_the_files_are_those_of_the_plugin_and_of_what_it_imports_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shop"
    (package / "deep").mkdir(parents=True)
    for path in (package / "__init__.py", package / "deep" / "__init__.py", package / "unused.py"):
        path.write_text("")
    (package / "deep" / "tools.py").write_text("import json, pydantic, beside\n")
    (tmp_path / "beside.py").write_text("")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(elsewhere)
    pool = ToolProcesses(["shop.deep.tools"], 1, 1)
    await pool.start(lambda: None)
    await pool.stop(0)
    assert {str(Path(name).relative_to(tmp_path)) for name in pool.files} == {
        "shop/__init__.py",
        "shop/deep/__init__.py",
        "shop/deep/tools.py",
        "beside.py",
    }


async def test_processes_do_not_grow_without_end_while_old_calls_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fifo: str
) -> None:
    async with changing(tmp_path, monkeypatch) as tools:
        seen, calls = [], []
        for price in range(MOST_CHILDREN + 2):
            seen.append(await tools.process())
            calls.append(asyncio.create_task(tools.run("old_price", timeout_s=600, fifo=fifo)))
            write(tmp_path, str(price))
            await tools.pool.reload()
        await wait_until("the oldest were ended", lambda: sum(map(alive, seen)) <= MOST_CHILDREN)
        assert await tools.price() == MOST_CHILDREN + 1
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
