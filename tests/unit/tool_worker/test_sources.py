"""The sources of a worker start together or not at all; a server that speaks too fast has to wait."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.servers import pace
from pentad.services.tool_worker.servers.pace import Pace
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation, ToolSources


class Source:
    """A source that notes its start and stop."""

    quick = False
    tools: Mapping[str, ToolSpec] = {}

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.notes: list[str] = []

    async def start(self, changed: Callable[[], None]) -> None:
        self.notes.append("start")
        if self._fails:
            raise RuntimeError("no start")

    async def stop(self, grace_s: float) -> None:
        self.notes.append("stop")

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        return ToolOutcome("ok", "")


async def test_where_one_source_does_not_start_those_before_are_stopped() -> None:
    first, second, third = Source(), Source(fails=True), Source()
    with pytest.raises(RuntimeError, match="no start"):
        await ToolSources(first, second, third).start(lambda: None)
    assert (first.notes, second.notes, third.notes) == (["start", "stop"], ["start", "stop"], [])


@pytest.mark.parametrize(("size", "messages"), [(64 << 20, 1), (10, 4_000)])
async def test_a_server_that_sends_more_than_its_share_is_read_later(
    size: int, messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("pentad.services.tool_worker.servers.pace.asyncio.sleep", sleep)
    it = Pace()
    await it.keep(1_000)
    assert slept == []
    await it.keep(size, messages)
    assert slept == [pytest.approx(2.0 - pace._BURST_S, abs=0.05)]


async def test_a_server_that_was_quiet_may_send_at_once() -> None:
    it = Pace()
    async with asyncio.timeout(0.2):
        for _ in range(100):
            await it.keep(10_000)
