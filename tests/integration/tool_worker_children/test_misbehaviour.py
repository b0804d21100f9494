"""A tool that hangs, blocks or crashes is an outcome of that call; the others go on or are told apart."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.integration.tool_worker_children.conftest import Tools, alive, running, until
from tests.support.waiting import wait_until


async def _enter_gate(tools: Tools) -> "asyncio.Task[object]":
    """A call that waits in the process of ``tools``."""
    waiting: asyncio.Task[object] = asyncio.create_task(tools.run("at_gate"))
    await until("a call at the gate", partial(_entered, tools))
    return waiting


async def _entered(tools: Tools) -> bool:
    return await tools.result("entered") == "1"


@pytest.mark.parametrize(
    ("tool", "how"), [("segfault", "it was killed by SIGSEGV"), ("leave", "it exited with code 3")]
)
async def test_a_call_alone_in_its_process_is_told_that_it_crashed_it(tools: Tools, tool: str, how: str) -> None:
    process = await tools.pid()
    outcome = await tools.run(tool)
    assert (outcome.kind, outcome.error) == ("crashed", f"tool {tool!r} brought its process down: {how}")
    assert await tools.pid() != process


async def test_a_crash_among_several_calls_blames_nobody_until_it_is_alone(tools: Tools) -> None:
    sharing = await _enter_gate(tools)
    assert (await tools.run("segfault")).kind == "interrupted"
    shared = await sharing
    assert getattr(shared, "kind", None) == "interrupted"
    assert (await tools.run("segfault", alone=True)).kind == "crashed"
    assert (await tools.run("pid", alone=True)).kind == "ok"


async def test_crash_after_crash_is_survived(tools: Tools) -> None:
    for _ in range(3):
        assert (await tools.run("leave")).kind == "crashed"
    assert await tools.pid()


async def test_a_tool_that_blocks_the_loop_loses_its_process(tools: Tools, fifo: str) -> None:
    process = await tools.pid()
    sharing = await _enter_gate(tools)
    outcome = await tools.run("block_loop", timeout_s=0.1, fifo=fifo)
    assert (outcome.kind, outcome.error) == ("timeout", "tool 'block_loop' took longer than its time limit of 0.1 s")
    shared = await sharing
    assert getattr(shared, "kind", None) == "interrupted"
    assert await tools.pid() != process
    await wait_until("the blocked process to end", lambda: not alive(process))


async def test_a_blocked_process_gets_no_new_calls_and_may_recover(
    tools: Tools, fifo: str, caplog: pytest.LogCaptureFixture
) -> None:
    process = await tools.pid()
    blocking = asyncio.create_task(tools.run("block_loop", fifo=fifo))
    await wait_until("the worker to notice", lambda: "blocks the loop" in caplog.text)
    assert await tools.pid() != process
    await asyncio.to_thread(Path(fifo).write_text, "free again")
    assert (await blocking).result == "free again"


async def test_a_thread_that_hangs_is_replaced_when_its_neighbours_have_finished(tools: Tools, fifo: str) -> None:
    process = await tools.pid()
    neighbour = await _enter_gate(tools)
    assert (await tools.run("hang_thread", timeout_s=0.1, fifo=fifo)).kind == "timeout"
    await until("calls to go elsewhere", partial(_elsewhere, tools, process))
    assert alive(process)
    assert not neighbour.done()
    neighbour.cancel()
    await wait_until("the retired process to end", lambda: not alive(process))


async def test_a_neighbour_of_a_thread_that_hangs_has_its_own_time(
    tools: Tools, fifo: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The process went 30 s after the thread, and with it whatever still ran there."""
    process = await tools.pid()
    neighbour = asyncio.create_task(tools.run("at_gate", timeout_s=2))
    await until("a call at the gate", partial(_entered, tools))
    assert (await tools.run("hang_thread", timeout_s=0.1, fifo=fifo)).kind == "timeout"
    await until("calls to go elsewhere", partial(_elsewhere, tools, process))
    assert (await neighbour).kind == "timeout"
    await wait_until("the retired process to end", lambda: not alive(process))
    assert "a call of tool 'hang_thread' does not end" in caplog.text


async def test_who_shared_a_process_that_was_ended_is_told_why(tools: Tools, fifo: str) -> None:
    neighbour = await _enter_gate(tools)
    await tools.run("block_loop", timeout_s=0.1, fifo=fifo)
    shared = await neighbour
    why = "it was ended because a call of tool 'block_loop' does not end"
    assert why in getattr(shared, "text", "")


async def _elsewhere(tools: Tools, process: int) -> bool:
    return await tools.pid() != process


async def test_calls_wait_for_a_free_thread_and_their_time_does_not_run(fifo: str, tmp_path: Path) -> None:
    async with running(processes=1, threads=1) as tools:
        holding = asyncio.create_task(tools.run("hang_thread", fifo=fifo))
        queued = asyncio.create_task(tools.run("add", timeout_s=5, a=1))
        dropped = asyncio.create_task(tools.run("add", a=1))
        await tools.pid()  # async calls pass by
        assert not queued.done()
        dropped.cancel()
        await asyncio.to_thread(Path(fifo).write_text, "go on")
        assert (await holding).result == "go on"
        assert (await queued).result == "3"


async def test_work_spreads_over_the_processes_asked_for() -> None:
    async with running(processes=2) as tools:
        first = asyncio.create_task(tools.run("at_gate"))
        pids = {await tools.pid()}
        await until("a second process", partial(_two, tools, pids))
        first.cancel()


async def _two(tools: Tools, pids: set[int]) -> bool:
    pids.add(await tools.pid())
    return len(pids) == 2


async def test_cancelling_a_call_cancels_its_task_and_keeps_the_process(tools: Tools, tmp_path: Path) -> None:
    started, cleaned = tmp_path / "started", tmp_path / "cleaned"
    process = await tools.pid()
    call = asyncio.create_task(tools.run("tidy", started=str(started), cleaned=str(cleaned)))
    await wait_until("the tool to start", started.exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until("the tool to clean up", cleaned.exists)
    assert await tools.pid() == process


@pytest.mark.parametrize("tool", ["stubborn", "hang_thread"])
async def test_cancelling_what_cannot_be_cancelled_retires_the_process(tools: Tools, fifo: str, tool: str) -> None:
    process = await tools.pid()
    call = asyncio.create_task(tools.run(tool, **_argument(tool, fifo)))  # type: ignore[arg-type]
    await tools.pid()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until("the process to end", lambda: not alive(process))
    assert await tools.pid() != process


def _argument(tool: str, fifo: str) -> dict[str, object]:
    return {"fifo": fifo} if tool == "hang_thread" else {"started": f"{fifo}.started"}


async def test_what_a_crashed_tool_left_behind_is_killed(tools: Tools) -> None:
    left = int(await tools.result("leave_something_behind"))
    await tools.run("segfault")
    await wait_until("the left process to end", lambda: not alive(left))


async def test_an_end_is_noticed_though_a_copy_holds_the_connection_open(tools: Tools, tmp_path: Path) -> None:
    told = tmp_path / "copy"
    try:
        assert (await tools.run("leave_a_copy_behind", told=str(told))).kind == "crashed"
        assert await tools.pid()
    finally:
        os.kill(int(told.read_text()), signal.SIGKILL)


async def test_isolated_calls_have_a_process_each(tools: Tools) -> None:
    shared = await tools.pid()
    pids = [int(await tools.result("isolated_pid")) for _ in range(2)]
    assert len({shared, *pids}) == 3
    await wait_until("both processes to end", lambda: not any(alive(pid) for pid in pids))


async def test_an_isolated_call_is_killed_at_its_time_limit(tools: Tools, fifo: str) -> None:
    heard: list[str] = []
    outcome = await tools.run("isolated_block", lambda text, _: heard.append(text), timeout_s=1, fifo=fifo)
    assert outcome.kind == "timeout"
    await wait_until("its process to end", lambda: not alive(int(heard[0])))


async def test_an_isolated_call_is_killed_when_cancelled(tools: Tools, fifo: str) -> None:
    heard: list[str] = []
    call = asyncio.create_task(tools.run("isolated_block", lambda text, _: heard.append(text), fifo=fifo))
    await wait_until("the tool to start", lambda: bool(heard))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await wait_until("its process to end", lambda: not alive(int(heard[0])))


@pytest.mark.parametrize("tool", ["fail_without_words", "fail_without_words_in_a_thread"])
async def test_an_error_that_cannot_say_what_it_is_is_an_error_of_its_call(tools: Tools, tool: str) -> None:
    outcome = await tools.run(tool, timeout_s=5)
    assert outcome.kind == "error", outcome
    assert "UnspeakableError: (it cannot say what: its text raises RuntimeError)" in (outcome.error or "")
