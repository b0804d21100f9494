"""Tools that a program hands over run in its process, with the limits of other tools, and cannot bring it down."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pentad import ExpandableTool, action, tool
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.given_tools import GivenTools
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.given import given_tools
from tests.support.waiting import wait_until

GIVEN_UP_S = 0.05
"""Seconds that a call may take which never ends."""
LONG_S = 60.0


@asynccontextmanager
async def source(*tools: Any, threads: int = 2) -> AsyncIterator[GivenTools]:
    given = GivenTools(given_tools(list(tools)), threads)
    await given.start(lambda: None)
    try:
        yield given
    finally:
        await given.stop(0)


async def run(given: GivenTools, name: str, *, timeout_s: float = LONG_S, **args: Any) -> ToolOutcome:
    said = args.pop("said", [])
    context = ToolContext(session_id="s")
    return await given.run(ToolInvocation(name, args, timeout_s, context), lambda text, _: said.append(text))


async def test_a_closure_runs_in_this_process_with_what_it_closes_over() -> None:
    seen: list[str] = []

    async def look(what: str, ctx: ToolContext) -> int:
        await ctx.progress(f"looks at {what}")
        seen.append(f"{what} {ctx.session_id}")
        return os.getpid()

    said: list[str] = []
    async with source(look) as given:
        outcome = await run(given, "look", what="tea", said=said)
        assert (outcome.kind, outcome.text) == ("ok", str(os.getpid()))
        await wait_until("its progress is told", lambda: said == ["looks at tea"])
    assert seen == ["tea s"]


async def test_plain_functions_run_in_threads_and_may_return_what_is_awaited() -> None:
    def where() -> int:
        return threading.get_ident()

    def later() -> Awaitable[str]:
        async def come() -> str:
            return f"on {threading.get_ident()}"

        return come()

    async with source(where, later) as given:
        assert (await run(given, "where")).text != str(threading.get_ident())
        assert (await run(given, "later")).text == f"on {threading.get_ident()}"


async def exits() -> None:
    sys.exit(3)


def exits_in_a_thread() -> None:
    sys.exit(3)


async def raises() -> None:
    raise ValueError("no tea")


async def returns_a_lock() -> Any:
    return threading.Lock()


async def cancels_itself() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("function", "kind", "told"),
    [
        (exits, "error", "tool 'exits' failed: SystemExit: 3"),
        (exits_in_a_thread, "error", "tool 'exits_in_a_thread' failed: SystemExit: 3"),
        (raises, "error", "tool 'raises' failed: ValueError: no tea"),
        (returns_a_lock, "error", "tool 'returns_a_lock' returned a lock that cannot become JSON"),
        (cancels_itself, "cancelled", "it was cancelled"),
    ],
)
async def test_whatever_a_tool_does_is_the_outcome_of_its_call(
    function: Callable[[], Any], kind: str, told: str
) -> None:
    async with source(function) as given:
        outcome = await run(given, function.__name__)
        assert outcome.kind == kind
        assert outcome.text.startswith(told)


async def test_wrong_arguments_are_told_and_the_function_is_not_called() -> None:
    async with source(raises) as given:
        assert (await run(given, "raises", much=1)).text == (
            "tool 'raises': argument 'much' is unknown: it takes no arguments"
        )


async def test_an_async_tool_is_cancelled_at_its_time_limit_and_with_its_call() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async with source(wait) as given:
        outcome = await run(given, "wait", timeout_s=GIVEN_UP_S)
        assert (outcome.kind, outcome.text) == ("timeout", "wait: no result within 0.05 s")
        call = asyncio.create_task(run(given, "wait"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await wait_until("both have ended", lambda: len(ended) == 2)
        assert call.cancelled() or call.cancelling()


async def test_a_thread_that_hangs_is_given_up_and_takes_one_place_of_the_threads() -> None:
    hangs = threading.Event()

    @tool(name="hang_here")
    def hang() -> str:
        hangs.wait(LONG_S)
        return "woke up"

    def quick() -> str:
        return "done"

    async with source(hang, quick) as given:
        assert (await run(given, "hang_here", timeout_s=GIVEN_UP_S)).kind == "timeout"
        assert (await run(given, "quick")).text == "done"
        assert (await run(given, "hang_here", timeout_s=GIVEN_UP_S)).kind == "timeout"
        assert (await run(given, "quick", timeout_s=GIVEN_UP_S)).kind == "timeout"  # both threads hang
        hangs.set()
        assert (await run(given, "quick")).text == "done"
    workers = [each for each in threading.enumerate() if each.name.startswith("tool ")]
    assert all(each.daemon for each in workers)


async def test_an_object_is_set_up_before_its_first_call_and_closed_at_the_stop() -> None:
    did: list[str] = []

    class Kitchen(ExpandableTool):
        async def setup(self) -> None:
            did.append("set up")

        async def close(self) -> None:
            did.append("closed")

        @action
        async def cook(self) -> int:
            did.append("cooked")
            return id(self)

        @action
        def serve(self) -> int:
            did.append("served")
            return id(self)

    kitchen = Kitchen()
    async with source(kitchen) as given:
        assert did == []
        assert (await run(given, "kitchen_cook")).text == str(id(kitchen))
        assert (await run(given, "kitchen_serve")).text == str(id(kitchen))
    assert did == ["set up", "cooked", "served", "closed"]


async def test_a_flood_of_progress_is_told_as_its_last_word() -> None:
    def talk(ctx: ToolContext) -> None:
        for number in range(10_000):
            ctx.progress(f"{number} " + "x" * 10_000)

    said: list[str] = []
    async with source(talk) as given:
        await run(given, "talk", said=said)
        await wait_until("the last is told", lambda: bool(said) and said[-1].startswith("9999 "))
    assert max(map(len, said)) <= 4_000


async def test_a_variable_that_is_missing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "x")
    monkeypatch.delenv("SHOP_CODE", raising=False)

    @tool(name="needs_two", env=["SHOP_KEY", "SHOP_CODE"])
    def needs() -> None: ...

    async with source(needs) as given:
        assert given.tools["needs_two"].missing_env == ["SHOP_CODE"]
