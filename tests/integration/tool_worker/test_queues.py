"""A tool-worker serves the queues that it is told, and no others."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.contracts.streams import TOOL_CALLS
from pentad.services.tool_worker.app import ToolWorker, build
from pentad.shared.presence.published import TOOLS
from pentad.shared.settings import Settings
from tests.integration.actors.moves import Moves
from tests.integration.tool_worker.test_concurrency import ask
from tests.support.waiting import wait_until


@asynccontextmanager
async def worker(url: str, *queues: str) -> AsyncIterator[ToolWorker]:
    settings = Settings(
        redis_url=url,
        pentad_plugins=("tests.support.plugins.queued_tools",),
        pentad_tool_processes=1,
        pentad_queues=queues,
    )
    made = build(settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_a_worker_serves_and_offers_the_queues_that_it_is_told_alone(moves: Moves, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    async with worker(moves.store.url, "left"):
        assert set(await TOOLS.read(moves.store)) == {"wait_left"}
        for number in range(4):
            await ask(moves, number, tmp_path / "go")
        await wait_until("the calls of its queue", lambda: _results(moves, 2))
        assert await moves.store.call("XLEN", TOOL_CALLS.key(0, queue="right")) == 2
        async with worker(moves.store.url, "right"):
            await wait_until("the others", lambda: _results(moves, 4))
            assert set(await TOOLS.read(moves.store)) == {"wait_left", "wait_right"}


async def _results(moves: Moves, count: int) -> bool:
    return bool(await moves.store.call("ZCARD", "pentad:{0}:task:default:task-0-a:signals") == count)


async def test_a_queue_that_no_tool_here_is_of_is_served_and_said(
    moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with worker(moves.store.url, "left", "gpu") as made:
            served = {consumer.key for consumer in made.consumers}
    assert TOOL_CALLS.key(0, queue="gpu") in served
    assert "PENTAD_QUEUES names the queue 'gpu', and no tool here is of it" in caplog.text
    assert "the queue 'left'" not in caplog.text
