"""Tools for the kill tests: each writes into a ledger when it starts and when it ends, and may kill its own process."""

import asyncio
import os
import signal
import time

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.registry import tool


def _write(word: str, ms: int, tag: str, ctx: ToolContext) -> None:
    """Write a line into the ledger with the monotonic time, which all processes share: wall clocks may step."""
    path = os.environ["CHAOS_LEDGER"]
    with open(path, "a", encoding="utf-8") as ledger:
        ledger.write(f"{word} {ctx.tool_call_id} {ctx.attempt} {time.monotonic():.3f} {tag} {ms}\n")


async def _work(ms: int, tag: str, die: str, ctx: ToolContext) -> None:
    _write("start", ms, tag, ctx)
    await asyncio.sleep(ms / 1000)
    if die and ctx.attempt == 1:
        _die(die)
    _write("end", ms, tag, ctx)


def _die(how: str) -> None:
    """Kill the process that the tool runs in."""
    if how == "exit":
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(effect="pure")
async def slow_pure(ms: int, tag: str, ctx: ToolContext, die: str = "") -> str:
    """Takes its time; may run again."""
    await _work(ms, tag, die, ctx)
    return f"pure {tag}"


@tool(effect="idempotent")
async def slow_idempotent(ms: int, tag: str, ctx: ToolContext, die: str = "") -> str:
    """Takes its time; may run again with its key."""
    await _work(ms, tag, die, ctx)
    return f"idempotent {tag}"


@tool(effect="unsafe")
async def slow_unsafe(ms: int, tag: str, ctx: ToolContext, die: str = "") -> str:
    """Takes its time; must never run twice."""
    await _work(ms, tag, die, ctx)
    return f"unsafe {tag}"


@tool(effect="unsafe")
async def slow_due(ms: int, tag: str, ctx: ToolContext) -> str:
    """Does the work of a schedule's run, and notes for which due time; must never run twice."""
    await _work(ms, f"{tag}@{ctx.metadata['schedule_id']}@{ctx.metadata['due_at']}", "", ctx)
    return f"done {tag}"


@tool(effect="unsafe", approval="always")
async def slow_allowed(ms: int, tag: str, ctx: ToolContext, die: str = "") -> str:
    """Takes its time once a person has allowed it; must never run twice."""
    await _work(ms, tag, die, ctx)
    return f"allowed {tag}"
