"""Tools of two queues that end when a file appears."""

import asyncio
from pathlib import Path

from pentad.shared.plugins.registry import tool


def _exists(path: str) -> bool:
    return Path(path).exists()


async def _wait(path: str) -> str:
    while not _exists(path):
        await asyncio.sleep(0.01)
    return "it is there"


@tool(effect="idempotent", queue="left", timeout=300)
async def wait_left(path: str) -> str:
    """Waits for a file, in the queue ``left``."""
    return await _wait(path)


@tool(effect="idempotent", queue="right", timeout=300)
async def wait_right(path: str) -> str:
    """Waits for a file, in the queue ``right``."""
    return await _wait(path)
