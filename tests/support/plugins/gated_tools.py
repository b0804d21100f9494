"""Tools that wait until a file appears, so that a test decides when they end. Each writes into a ledger.

``GATES`` names the folder; the gate ``g`` opens when ``GATES/g`` exists. ``GATES/ledger`` gets a line for each start
and end: ``start TAG PID ATTEMPT CALL``.
"""

import asyncio
import os
from pathlib import Path

from pentad import ToolContext, tool

_POLL_S = 0.02
_waiting: dict[str, asyncio.Event] = {}
_pollers: set["asyncio.Task[None]"] = set()


def _folder() -> Path:
    return Path(os.environ["GATES"])


def _write(word: str, tag: str, ctx: ToolContext) -> None:
    with (_folder() / "ledger").open("a") as ledger:
        ledger.write(f"{word} {tag} {os.getpid()} {ctx.attempt} {ctx.tool_call_id}\n")


async def _poll(gate: str, opened: asyncio.Event) -> None:
    """One poller for a gate, however many wait for it."""
    while not (_folder() / gate).exists():
        await asyncio.sleep(_POLL_S)
    del _waiting[gate]
    opened.set()


async def _pass(gate: str, tag: str, ctx: ToolContext) -> str:
    _write("start", tag, ctx)
    if gate not in _waiting:
        _waiting[gate] = asyncio.Event()
        poller = asyncio.create_task(_poll(gate, _waiting[gate]))
        _pollers.add(poller)
        poller.add_done_callback(_pollers.discard)
    await _waiting[gate].wait()
    _write("end", tag, ctx)
    return f"passed {tag}"


@tool(effect="pure", timeout=300)
async def gate_pure(gate: str, tag: str, ctx: ToolContext) -> str:
    """Waits for a gate; may run again."""
    return await _pass(gate, tag, ctx)


@tool(effect="idempotent", timeout=300)
async def gate_idempotent(gate: str, tag: str, ctx: ToolContext) -> str:
    """Waits for a gate; may run again with its key."""
    return await _pass(gate, tag, ctx)


@tool(effect="unsafe", timeout=300)
async def gate_unsafe(gate: str, tag: str, ctx: ToolContext) -> str:
    """Waits for a gate; must never run twice."""
    return await _pass(gate, tag, ctx)


@tool(effect="pure")
async def big(size: int) -> str:
    """A long text."""
    return "x" * size


@tool(effect="pure")
async def broken(tag: str) -> str:
    """Always raises."""
    raise RuntimeError(f"broken on purpose: {tag}")
