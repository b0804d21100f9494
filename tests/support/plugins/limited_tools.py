"""Tools with limits, and one that fails as long as a file is there. Each writes its starts and ends into a file."""

import asyncio
import os
import time
from pathlib import Path

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.registry import tool


def _write(ledger: str, word: str, ctx: ToolContext) -> None:
    line = f"{word} {time.monotonic():.6f} {ctx.tenant_id} {ctx.tool_call_id} {os.getppid()}\n"
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


async def _work(ledger: str, seconds: float, ctx: ToolContext) -> str:
    _write(ledger, "start", ctx)
    await asyncio.sleep(seconds)
    _write(ledger, "end", ctx)
    return "done"


@tool(effect="idempotent", timeout=60, concurrency=2)
async def two_at_once(ledger: str, seconds: float, ctx: ToolContext) -> str:
    """Works for some seconds; two of these run at once."""
    return await _work(ledger, seconds, ctx)


@tool(effect="idempotent", timeout=60, rate="5/s")
async def five_a_second(ledger: str, seconds: float, ctx: ToolContext) -> str:
    """Works for some seconds; five of these begin in a second."""
    return await _work(ledger, seconds, ctx)


@tool(effect="unsafe", timeout=60, concurrency=1)
async def one_unsafe(ledger: str, seconds: float, ctx: ToolContext) -> str:
    """Works for some seconds, never twice."""
    return await _work(ledger, seconds, ctx)


@tool(effect="pure", breaker="3/min")
def flaky(ledger: str, number: int, ctx: ToolContext) -> str:
    """Fails as long as there is a file beside the ledger."""
    _write(ledger, "start", ctx)
    if Path(f"{ledger}.broken").exists():
        raise RuntimeError("the service is down")
    return f"fine {number}"


@tool(effect="pure", breaker=None)
def always_tried(ledger: str, ctx: ToolContext) -> str:
    """Fails, and is tried all the same."""
    _write(ledger, "start", ctx)
    raise RuntimeError("no")
