"""Tools that end in every way that a call can end, and a hook of one instruction that does."""

import asyncio
import os
from pathlib import Path
from typing import Any

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.hooks import hook
from pentad.shared.plugins.registry import tool


def _exists(path: str) -> bool:
    return Path(path).exists()


@tool(effect="pure")
async def fails() -> str:
    """Always raises."""
    raise RuntimeError("on purpose")


@tool(effect="pure", timeout=0.3)
async def takes_too_long() -> str:
    """Never ends by itself."""
    await asyncio.sleep(3600)
    return ""


@tool(effect="pure")
async def gives_up() -> str:
    """Cancels itself."""
    raise asyncio.CancelledError


@tool(effect="unsafe")
async def dies() -> str:
    """Brings its process down, and whoever shares it, once both have begun."""
    await asyncio.sleep(0.5)
    os._exit(1)


@tool(effect="idempotent", timeout=300)
async def holds(path: str, ctx: ToolContext) -> str:
    """Says that it has begun and waits for a file."""
    await ctx.progress("begun")
    while not _exists(path):
        await asyncio.sleep(0.01)
    return "it is there"


@tool(effect="idempotent", timeout=300, concurrency=1)
async def takes_turns(path: str) -> str:
    """Waits for a file, one call at a time."""
    while not _exists(path):
        await asyncio.sleep(0.01)
    return "it is there"


@tool(effect="pure", breaker="1/min")
async def keeps_failing() -> str:
    """Always raises, and is left alone after the first time."""
    raise RuntimeError("on purpose")


@hook("before_model", instructions=["simple"], timeout=0.3)
async def ends_as_told(messages: list[dict[str, Any]]) -> None:
    """End as the last message says: ``ok``, or otherwise."""
    how = str(messages[-1]["content"])
    if how == "error":
        raise RuntimeError("on purpose")
    if how == "cancelled":
        raise asyncio.CancelledError
    if how == "timeout":
        await asyncio.sleep(3600)
