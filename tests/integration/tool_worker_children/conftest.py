"""Pools of real child processes."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.children.pool import ToolProcesses
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.context import ToolContext
from tests.support.waiting import wait_until

PLUGIN = "tests.integration.tool_worker_children.plugin_tools"
_OVERDUE_S = 30.0
"""How long after its time limit a call may still have no outcome: a test fails then instead of hanging."""


def unheard(message: str, fraction: float | None) -> None:
    """Progress that the test does not look at."""


class Tools:
    """A pool with short words for what tests do."""

    def __init__(self, pool: ToolProcesses) -> None:
        self.pool = pool

    async def run(
        self,
        tool: str,
        on_progress: OnProgress = unheard,
        *,
        timeout_s: float = 30,
        alone: bool = False,
        context: ToolContext | None = None,
        keeps_files: bool = False,
        **args: object,
    ) -> ToolOutcome:
        invocation = ToolInvocation(tool, args, timeout_s, context or ToolContext(), keeps_files=keeps_files)
        async with asyncio.timeout(timeout_s + _OVERDUE_S):
            return await self.pool.run(invocation, on_progress, alone=alone)

    async def result(self, tool: str, **args: object) -> str:
        outcome = await self.run(tool, **args)  # type: ignore[arg-type]
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        return outcome.result

    async def pid(self) -> int:
        return int(await self.result("pid"))


@asynccontextmanager
async def running(
    processes: int = 1, threads: int = 4, plugins: Sequence[str] = (PLUGIN,), grace_s: float = 0
) -> AsyncIterator[Tools]:
    """A started pool, stopped at the end."""
    pool = ToolProcesses(plugins, processes, threads)
    await pool.start(lambda: None)
    try:
        yield Tools(pool)
    finally:
        await pool.stop(grace_s)


@pytest.fixture
async def tools() -> AsyncIterator[Tools]:
    """One process with four threads."""
    async with running() as started:
        yield started


@pytest.fixture
def fifo(tmp_path: Path) -> str:
    """A named pipe that nobody writes to yet."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return str(path)


async def until(what: str, ask: Callable[[], Awaitable[bool]]) -> None:
    """``wait_until`` for what only a tool can say."""
    either: Callable[[], bool | Awaitable[bool]] = ask
    await wait_until(what, either)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()
