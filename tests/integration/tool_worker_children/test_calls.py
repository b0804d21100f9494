"""What goes in arrives, what comes out is told, and no tool's ending is more than its own."""

import asyncio
import re
from datetime import UTC, datetime

import pytest

from pentad.contracts.tools import Artifact
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.shared.plugins.context import ToolContext
from tests.integration.tool_worker_children.conftest import Tools, running


@pytest.mark.parametrize(
    ("tool", "args", "result"),
    [
        ("add", {"a": 1}, "3"),
        ("add", {"a": "40", "b": 2}, "42"),
        ("returns_awaitable", {}, "later"),
        ("fail", {"how": "surrogate"}, "half ? pair"),
        ("open_gate", {}, ""),
    ],
)
async def test_results_come_back_as_text(tools: Tools, tool: str, args: dict[str, object], result: str) -> None:
    assert await tools.result(tool, **args) == result


@pytest.mark.parametrize(
    ("tool", "args", "told"),
    [
        ("add", {"a": "x"}, "tool 'add': argument 'a': input should be a valid integer"),
        ("add", {}, "tool 'add': argument 'a' is missing"),
        ("nobody", {}, "tool 'nobody' is unknown"),
        ("fail", {"how": "raise"}, "tool 'fail' failed: ValueError: no luck"),
        ("fail", {"how": "exit"}, "tool 'fail' failed: SystemExit: 4"),
        ("fail", {"how": "object"}, "tool 'fail' returned a object that cannot become JSON"),
        ("plain_fail", {"how": "raise"}, "tool 'plain_fail' failed: ValueError: no luck"),
        ("plain_fail", {"how": "exit"}, "tool 'plain_fail' failed: SystemExit: 4"),
        ("plain_fail", {"how": "stop"}, "tool 'plain_fail' failed: StopIteration"),
        ("long_text", {"characters": 17 << 20}, "the limit is 16,777,216"),
    ],
)
async def test_every_failure_is_an_error_of_its_call(
    tools: Tools, tool: str, args: dict[str, object], told: str
) -> None:
    process = await tools.pid()
    outcome = await tools.run(tool, **args)  # type: ignore[arg-type]
    assert outcome.kind == ("refused" if tool == "add" else "error"), "wrong arguments are no failure of the tool"
    assert outcome.error is not None
    assert told in outcome.error
    assert await tools.pid() == process


async def test_a_tool_that_cancels_itself_is_not_an_error_of_others(tools: Tools) -> None:
    assert (await tools.run("fail", how="cancel")).kind == "cancelled"


async def test_arguments_nested_too_deeply_are_refused(tools: Tools) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    outcome = await tools.run("add", a=deep)
    assert outcome.kind == "error"
    assert "cannot be sent" in (outcome.error or "")


async def test_a_huge_result_arrives_as_far_as_it_is_kept(tools: Tools) -> None:
    """Promise: what is kept arrives whole, and a little more, by which the worker sees that it is to be cut."""
    most = RESULT_LIMIT // 2
    assert await tools.result("long_text", characters=most) == "ä" * most
    assert await tools.result("long_text", characters=8 << 20) == "ä" * (most + 2)


async def test_the_context_says_whose_call_it_is(tools: Tools) -> None:
    context = ToolContext("call-0-a", "key", 2, "acme", None, "s1", "task-0-b", datetime(2030, 1, 31, tzinfo=UTC))
    outcome = await tools.run("whose", context=context)
    assert outcome.result == '["call-0-a","key",2,"acme",null,"task-0-b","2030-01-31T00:00:00Z"]'


@pytest.mark.parametrize("tool", ["steps", "plain_steps"])
async def test_progress_arrives_in_order_and_before_the_result(tools: Tools, tool: str) -> None:
    heard: list[tuple[str, float | None]] = []
    outcome = await tools.run(tool, lambda text, fraction: heard.append((text, fraction)), count=200)
    assert outcome.result == "done"
    assert heard == [(f"step {number}", number / 200) for number in range(200)]


async def test_a_listener_that_fails_does_not_harm_the_call(tools: Tools) -> None:
    def broken(text: str, fraction: float | None) -> None:
        raise RuntimeError("deaf")

    assert (await tools.run("steps", broken, count=2)).kind == "ok"


async def test_what_tools_print_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    async with running() as tools:
        await tools.result("say", text="hello from a tool")
    captured = capfd.readouterr()
    assert "hello from a tool\n" in captured.err
    assert captured.out == ""


async def test_a_thousand_calls_wait_in_one_process() -> None:
    async with running(processes=1) as tools:
        process = await tools.pid()
        waiting = [asyncio.create_task(tools.run("at_gate")) for _ in range(1_000)]
        while int(await tools.result("entered")) < 1_000:
            pass  # each turn is a call of its own
        await tools.result("open_gate")
        outcomes = await asyncio.gather(*waiting)
    assert {outcome.result for outcome in outcomes} == {str(process)}


async def test_what_a_tool_says_is_logged_with_time_task_and_call(capfd: pytest.CaptureFixture[str]) -> None:
    context = ToolContext(tool_call_id="call-0-1", task_id="task-0-a")
    async with running() as tools:
        assert (await tools.run("logged", context=context, text="x")).kind == "error"
    lines = [line for line in capfd.readouterr().err.splitlines() if "call-0-1" in line]
    at = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    for said in (
        rf"{at} INFO printed: logged \[task-0-a call-0-1\]: printed x",
        rf"{at} WARNING my_tools: logged \[task-0-a call-0-1\]: logged x\[2J",
        rf"{at} WARNING pentad.tools: logged \[task-0-a call-0-1\]: Traceback \(most recent call last\):",
        rf"{at} WARNING pentad.tools: logged \[task-0-a call-0-1\]: ValueError: as it should",
        rf"{at} INFO printed: logged \[task-0-a call-0-1\]: begun",
    ):
        assert [line for line in lines if re.fullmatch(said, line)], (said, lines)


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
async def test_files_come_from_the_child_whole(tools: Tools, size: int) -> None:
    context = ToolContext(tool_call_id="call-0-x")
    outcome = await tools.run("drawn", context=context, keeps_files=True, size=size)
    assert outcome.text == (
        f'{{"drawing":"[file artifacts/call-0-x/drawing.png: image/png, {size:,} bytes]","size":{size}}}'
    )
    assert outcome.made == (Artifact(bytes([255]) * size, "drawing.png", "image/png"),)
    several = await asyncio.gather(
        *(tools.run("drawn_later", context=context, keeps_files=True, size=n * 400_000 + 1) for n in range(4))
    )
    assert [len(each.made[0].data) for each in several] == [n * 400_000 + 1 for n in range(4)]


async def test_a_call_whose_files_are_not_kept_says_so(tools: Tools) -> None:
    outcome = await tools.run("drawn", size=5)
    assert "which is not kept: set PENTAD_FILES" in outcome.text
    assert outcome.made == ()
