"""PENTAD_TOOL_CONCURRENCY is what one tool-worker runs at once, in all of its queues together."""

from collections import Counter
from pathlib import Path
from typing import Any

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.app import build
from pentad.shared.settings import Settings
from tests.integration.actors.moves import TASK, Moves
from tests.support.waiting import wait_until

CALLS, PLACES = 8, 3


async def ask(moves: Moves, number: int, path: Path) -> None:
    side = ("left", "right")[number % 2]
    given: dict[str, Any] = {"event_id": "e", "at": "now", "tenant_id": "default", "session_id": "s1", "step": 1}
    given |= {"task_id": TASK.task, "tool_call_id": f"c{number}", "tool": f"wait_{side}", "args": {"path": str(path)}}
    command = ToolCallCommand(**given, effect=Effect.IDEMPOTENT, timeout=300)
    await moves.store.call("HSET", TASK.calls, command.tool_call_id, "open 0")
    await moves.store.call("XADD", TOOL_CALLS.key(0, queue=side), "*", "data", command.to_json())


async def states(moves: Moves) -> Counter[bytes]:
    return Counter(state.split()[0] for state in await moves.store.call("HVALS", TASK.calls))


async def test_a_worker_of_several_queues_runs_no_more_calls_at_once_than_it_may(moves: Moves, tmp_path: Path) -> None:
    plugins, go = ("tests.support.plugins.queued_tools",), tmp_path / "go"
    settings = Settings(
        redis_url=moves.store.url, pentad_plugins=plugins, pentad_tool_concurrency=PLACES, pentad_tool_processes=1
    )
    worker = build(settings)
    await worker.start()
    try:
        for number in range(CALLS):
            await ask(moves, number, go)

        async def full() -> bool:
            return (await states(moves))[b"started"] >= PLACES

        await wait_until("all places to be taken", full)
        found = [await moves.pending(TOOL_CALLS.key(0, queue=side), "tool-worker") for side in ("left", "right")]
        assert sum(map(len, found)) == PLACES
        assert await states(moves) == {b"started": PLACES, b"open": CALLS - PLACES}
        go.touch()
        await wait_until("all results", lambda: _all_in(moves))
    finally:
        await worker.stop()


async def _all_in(moves: Moves) -> bool:
    return bool(await moves.store.call("ZCARD", TASK.signals) == CALLS)
