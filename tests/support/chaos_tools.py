"""Tools for the kill tests: each writes into a ledger when it starts and when it ends."""

import asyncio
import os

from shared.plugins.context import ToolContext
from shared.plugins.registry import tool


def _write(word: str, ctx: ToolContext) -> None:
    path = os.environ["CHAOS_LEDGER"]
    with open(path, "a", encoding="utf-8") as ledger:
        ledger.write(f"{word} {ctx.tool_call_id} {ctx.attempt}\n")


async def _work(ms: int, ctx: ToolContext) -> None:
    _write("start", ctx)
    await asyncio.sleep(ms / 1000)
    _write("end", ctx)


@tool(effect="pure")
async def slow_pure(ms: int, tag: str, ctx: ToolContext) -> str:
    """Takes its time; may run again."""
    await _work(ms, ctx)
    return f"pure {tag}"


@tool(effect="idempotent")
async def slow_idempotent(ms: int, tag: str, ctx: ToolContext) -> str:
    """Takes its time; may run again with its key."""
    await _work(ms, ctx)
    return f"idempotent {tag}"


@tool(effect="unsafe")
async def slow_unsafe(ms: int, tag: str, ctx: ToolContext) -> str:
    """Takes its time; must never run twice."""
    await _work(ms, ctx)
    return f"unsafe {tag}"
