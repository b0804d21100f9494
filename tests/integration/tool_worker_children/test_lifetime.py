"""Children start when they must, end with their worker, and leave nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import uvloop

from pentad.services.tool_worker.builtins.catalogue import Builtins
from pentad.services.tool_worker.children.launch import launch
from pentad.services.tool_worker.children.pool import ToolProcesses
from pentad.services.tool_worker.sources import ToolSources
from pentad.shared.plugins.errors import PluginError
from tests.integration.tool_worker_children.conftest import PLUGIN, Tools, alive, running
from tests.support.waiting import wait_until

_WORKER = f"""
import asyncio, json, sys
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.services.tool_worker.children.pool import ToolProcesses

async def main(calls):
    pools = [ToolProcesses(["{PLUGIN}"], 1, 1) for _ in calls]
    for pool in pools:
        await pool.start(lambda: None)
    def run(pool, tool, args):
        return pool.run(ToolInvocation(tool, args, 60), lambda text, fraction: None)
    print(*[(await run(pool, "pid", {{}})).result for pool in pools], flush=True)
    await asyncio.gather(*[run(pool, tool, args) for pool, (tool, args) in zip(pools, calls)])

asyncio.run(main(json.loads(sys.argv[1])))
"""


async def test_children_end_with_a_killed_worker_whatever_they_do(tmp_path: Path) -> None:
    pipes = [tmp_path / "blocked", tmp_path / "hung"]
    for pipe in pipes:
        os.mkfifo(pipe)
    held = tmp_path / "held"
    calls: list[tuple[str, dict[str, str]]] = [
        ("block_loop", {"fifo": str(pipes[0])}),
        ("hang_thread", {"fifo": str(pipes[1])}),
        ("at_gate", {}),
    ]
    if sys.platform == "linux":  # elsewhere the end is noticed by a thread, which then cannot run
        calls.append(("hold_interpreter", {"started": str(held)}))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, json.dumps(calls), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    pids = [int(pid) for pid in (await worker.stdout.readline()).split()]
    writers = [await asyncio.to_thread(open, pipe, "wb") for pipe in pipes]  # opens when the tool reads
    await wait_until("the interpreter to be held", lambda: held.exists() or sys.platform != "linux")
    assert len(pids) == len(calls)
    assert all(alive(pid) for pid in pids)
    worker.kill()
    await worker.wait()
    await wait_until("every child to end", lambda: not any(alive(pid) for pid in pids))
    for writer in writers:
        writer.close()


async def test_a_child_ends_when_its_lifeline_is_cut() -> None:
    """The way that works where the kernel does not help."""
    launched = launch([PLUGIN], 1)
    launched.let_go()
    await wait_until("the child to end", lambda: launched.process.poll() is not None)
    launched.connection.close()


async def test_ctrl_c_is_the_workers_to_handle(tools: Tools) -> None:
    process = await tools.pid()
    os.kill(process, signal.SIGINT)
    assert await tools.pid() == process


async def test_without_plugins_nothing_is_started() -> None:
    async with running(plugins=()) as tools:
        assert tools.pool.tools == {}
        assert (await tools.run("pid")).kind == "error"


async def test_the_schemas_are_known_without_importing_the_plugin(tools: Tools) -> None:
    assert tools.pool.tools["add"].parameters["required"] == ["a"]
    assert tools.pool.tools["isolated_pid"].isolated


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import missing_thing", "No module named 'missing_thing'"),
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was killed by SIGSEGV"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        (
            "from pentad.shared.plugins.registry import tool\n@tool\ndef ask_user(): ...",
            "every task has a tool 'ask_user' of its own, as it has 'complete_task'",
        ),
    ],
)
async def test_a_plugin_that_does_not_import_stops_the_start_with_its_own_error(
    source: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    sources = ToolSources(Builtins(), ToolProcesses(["broken_plugin"], 1, 1))
    with pytest.raises(PluginError) as caught:
        await sources.start(lambda: None)
    assert told in str(caught.value)


async def test_a_plugins_tool_replaces_a_built_in_one_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A plug-in may call its tool `echo` or `calculator`: it is run and published, and the log says so once."""
    (tmp_path / "own_echo.py").write_text(
        'from pentad.shared.plugins.registry import tool\n@tool(queue="mine")\ndef echo() -> str: return "mine"'
    )
    monkeypatch.chdir(tmp_path)
    children = ToolProcesses(["own_echo"], 1, 1)
    sources = ToolSources(Builtins(), children)
    await sources.start(lambda: None)
    try:
        assert sources.of("echo") is children
        assert sources.of("calculator") is not children
        published = [spec for spec in sources.specs() if spec.name == "echo"]
        assert [(spec.name, spec.queue) for spec in published] == [("echo", "mine")]
        said = [record.getMessage() for record in caplog.records if "replaces" in record.getMessage()]
        assert said == ["the tool 'echo' of a plug-in or of this program replaces another of its name"]
    finally:
        await sources.stop(0)


async def test_plugins_come_from_the_working_directory_whatever_else_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("services", "contracts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')")
    (tmp_path / "my_own_tools.py").write_text(
        "from pentad.shared.plugins.registry import tool\n@tool\ndef mine() -> str: return 'x'"
    )
    monkeypatch.chdir(tmp_path)
    async with running(plugins=["my_own_tools"]) as tools:
        assert await tools.result("mine") == "x"


async def test_stop_lets_calls_finish_and_interrupts_the_rest(fifo: str) -> None:
    async with running() as tools:
        process = await tools.pid()
        finishing = asyncio.create_task(tools.run("hang_thread", fifo=fifo))
        await tools.pid()
        stopping = asyncio.create_task(tools.pool.stop(grace_s=30))
        await asyncio.to_thread(Path(fifo).write_text, "in time")
        assert (await finishing).result == "in time"
        await stopping
        assert not alive(process)


async def test_stop_interrupts_what_does_not_finish(fifo: str) -> None:
    async with running(threads=1) as tools:
        pids = [await tools.pid()]
        calls = [asyncio.create_task(tools.run("hang_thread", fifo=fifo)) for _ in range(2)]
        await tools.pid()
        await tools.pool.stop(grace_s=0)
        outcomes = [await call for call in calls]
        assert {outcome.kind for outcome in outcomes} == {"interrupted"}
        assert (await tools.run("pid")).kind == "interrupted"
        assert not alive(pids[0])


async def _whole_life() -> str:
    async with running() as tools:
        assert (await tools.run("leave")).kind == "crashed"
        return await tools.result("add", a=1)


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_pools_live_in_any_loop_of_any_thread(factory: object) -> None:
    results: list[str] = []

    def one() -> None:
        with asyncio.Runner(loop_factory=factory) as runner:  # type: ignore[arg-type]
            results.append(runner.run(_whole_life()))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["3", "3"]


def test_importing_the_decorator_is_quick() -> None:
    """Nothing heavy comes with it."""
    heavy = {"openai", "redis", "faststream", "uvloop"}
    source = f"import sys, pentad.shared.plugins.registry; print({heavy} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout == b"set()\n"
