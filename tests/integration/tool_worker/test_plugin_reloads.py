"""Tool-workers take up new code when they are asked: each once, one after the other, whoever is killed meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.services.tool_worker.app import ToolWorker
from pentad.services.tool_worker.reloads import PluginReloads
from pentad.shared.keys import PLUGIN_RELOAD, PLUGIN_REPORTS, PLUGIN_TURN
from pentad.shared.plugins.errors import PluginError
from pentad.shared.presence import plugin_reloads
from pentad.shared.presence.plugin_reloads import WorkerPlugins, ask_for_reload, reported_plugins, take_turn
from pentad.shared.presence.published import INSTRUCTIONS, TOOLS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

Reload = Callable[[], Awaitable[None]]


@asynccontextmanager
async def following(store: Store, *workers: tuple[str, Reload]) -> AsyncIterator[dict[str, PluginReloads]]:
    """Workers that follow the requests from now on."""
    made = {name: PluginReloads(store, name, ["my_tools"], reload) for name, reload in workers}
    tasks = [asyncio.create_task(each.follow()) for each in made.values()]
    try:
        await wait_until("all have reported", lambda: _reported(store, len(made)))
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _reported(store: Store, number: int) -> bool:
    return len(await reported_plugins(store)) == number


async def reports_of(store: Store, word: str, number: int) -> dict[str, WorkerPlugins]:
    """Wait until so many workers have carried a request out, and return what they say."""

    async def found() -> dict[str, WorkerPlugins] | None:
        reports = await reported_plugins(store)
        done = [each for each in reports.values() if each.word == word and not each.running]
        return reports if len(done) == number else None

    reports = await wait_until(f"{number} workers have carried it out", found)
    assert reports is not None
    return reports


class Importing:
    """Imports that say how many there are at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.done: list[str] = []

    def of(self, name: str, error: Exception | None = None) -> Reload:
        async def reload() -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(20):
                await asyncio.sleep(0)
            self.now -= 1
            self.done.append(name)
            if error is not None:
                raise error

        return reload


async def test_each_imports_once_for_a_request_and_never_two_at_a_time(store: Store) -> None:
    imports = Importing()
    names = [f"w{n}" for n in range(5)]
    async with following(store, *((name, imports.of(name)) for name in names)):
        for _ in range(2):
            imports.done.clear()
            request = await ask_for_reload(store)
            await reports_of(store, request.word, 5)
            assert sorted(imports.done) == names
        assert imports.most == 1
        assert await store.call("EXISTS", PLUGIN_TURN) == 0
    assert await store.call("EXISTS", PLUGIN_REPORTS) == 0


@pytest.mark.parametrize("error", [PluginError("line 3 is wrong"), OSError("no room"), RuntimeError("strange")])
async def test_one_that_cannot_import_says_so_and_holds_up_nobody(store: Store, error: Exception) -> None:
    imports = Importing()
    async with following(store, ("a", imports.of("a", error)), ("b", imports.of("b"))):
        request = await ask_for_reload(store)
        reports = await reports_of(store, request.word, 2)
        assert reports["a"].error == ("RuntimeError" if isinstance(error, RuntimeError) else str(error))
        assert reports["b"].error is None
        assert imports.done.count("a") == 1, "it is tried again when somebody asks again"


async def test_a_worker_that_is_killed_in_its_turn_does_not_stop_the_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = Importing()
    async with following(store, ("a", imports.of("a")), ("b", imports.of("b"))):
        monkeypatch.setattr(plugin_reloads, "TURN_MS", 300)
        assert await take_turn(store, "the killed one")
        request = await ask_for_reload(store)
        await reports_of(store, request.word, 2)
    assert imports.most == 1


async def test_who_imports_for_long_keeps_the_turn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_reloads, "TURN_MS", 300)
    monkeypatch.setattr("pentad.services.tool_worker.reloads.REPORT_EVERY_S", 0.05)
    ended = asyncio.Event()

    async def slow() -> None:
        await ended.wait()

    async with following(store, ("a", slow)):
        await ask_for_reload(store)
        await wait_until("it is importing", lambda: _running(store, "a"))
        for _ in range(20):
            assert not await take_turn(store, "b")
            await asyncio.sleep(0.05)  # longer in all than a turn that nobody keeps
        ended.set()
        await wait_until("the turn is free", lambda: take_turn(store, "b"))


async def _running(store: Store, worker: str) -> bool:
    return (await reported_plugins(store))[worker].running


async def test_a_turn_of_before_the_clock_stepped_back_is_over(store: Store) -> None:
    await store.call("SET", PLUGIN_TURN, "long ago", "PX", 3_600_000)
    assert await take_turn(store, "a")


async def test_a_request_of_before_the_start_is_carried_out_by_the_start(store: Store) -> None:
    imports = Importing()
    await ask_for_reload(store)
    await wait_until("the clock goes on", lambda: _is_past(store))
    async with following(store, ("a", imports.of("a"))):
        second = await ask_for_reload(store)
        await reports_of(store, second.word, 1)
    assert imports.done == ["a"], "once, for the second"


async def _is_past(store: Store) -> bool:
    return int(await store.call("HGET", PLUGIN_RELOAD, "at")) < await store.clock() - 5


async def test_a_request_during_the_start_is_carried_out_after_it(store: Store) -> None:
    imports = Importing()
    reloads = PluginReloads(store, "a", ["my_tools"], imports.of("a"))
    reloads.begin()
    request = await ask_for_reload(store)
    task = asyncio.create_task(reloads.follow())
    await reports_of(store, request.word, 1)
    task.cancel()
    await asyncio.wait({task})
    assert imports.done == ["a"]


async def test_rubbish_in_redis_stops_no_worker(store: Store) -> None:
    imports = Importing()
    await store.call("HSET", PLUGIN_REPORTS, "other", "{", "older", '{"at": 1, "modules": []}')
    await store.call("HSET", PLUGIN_RELOAD, "word", "w", "at", "soon")
    async with following(store, ("a", imports.of("a"))):
        request = await ask_for_reload(store)
        await reports_of(store, request.word, 1)
        await store.call("DEL", PLUGIN_RELOAD)
        await store.call("SET", PLUGIN_RELOAD, "a string")
        await wait_until("its reports go on", lambda: _reported(store, 1))
        await store.call("DEL", PLUGIN_RELOAD)
        request = await ask_for_reload(store)
        await reports_of(store, request.word, 1)


PLUGIN = """
import pentad

@pentad.tool(effect="pure")
def price() -> int:
    return {price}

@pentad.instruction(tools=[])
def poet() -> str:
    return "{words}"
"""


async def test_a_worker_has_the_new_code_in_everything_that_plugins_define(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "reloaded_plugin.py"
    file.write_text(PLUGIN.format(price=4, words="Rhyme."))
    worker = ToolWorker(Settings(redis_url=store.url, pentad_plugins=("reloaded_plugin",)))
    await worker.start()
    try:
        await wait_until("it has reported", lambda: _reported(store, 1))
        new = PLUGIN.format(price=10_000, words="Do not rhyme.")
        file.write_text(new + '\n@pentad.tool(effect="pure")\ndef tea() -> str:\n    return "tea"\n')
        request = await ask_for_reload(store)
        ((_, report),) = (await reports_of(store, request.word, 1)).items()
        assert (report.error, report.modules) == (None, ("reloaded_plugin",))
        await wait_until("the new tool is offered", lambda: _has(store, "tea"))
        await wait_until("the new instruction is known", lambda: _prompt(store, "Do not rhyme."))
        file.write_text("import no_such_module\n")
        request = await ask_for_reload(store)
        ((_, report),) = (await reports_of(store, request.word, 1)).items()
        assert "no_such_module" in str(report.error)
        assert await _has(store, "tea")
        assert worker.alive()
    finally:
        await worker.stop()
    assert await reported_plugins(store) == {}


async def _has(store: Store, tool: str) -> bool:
    return tool in await TOOLS.read(store)


async def _prompt(store: Store, words: str) -> bool:
    return words in str((await INSTRUCTIONS.read(store)).get("poet"))
