"""``pentad memory rebuild``: the memory is written anew from the records and the tasks in Redis."""

import argparse
import asyncio
from time import monotonic

from pentad.cli.gateway import operator_for, streams
from pentad.cli.render import harmless
from pentad.client.agent import Agent
from pentad.contracts.memories import MemoryRebuild
from pentad.errors import ClientError
from pentad.shared.settings import Settings

_LOOK_S = 1.0
_PATIENCE_S = 60.0
"""How long nothing may happen before it is given up."""


async def rebuild(args: argparse.Namespace, settings: Settings) -> int:
    """Ask for it, show how far it is until it has ended. Broken off and begun again, it goes on."""
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        now = await agent.management.rebuild_memory()
        shown, moved_at = "", monotonic()
        while True:
            if (line := _line(now)) != shown:
                out.write(line + "\n")
                out.flush()
                shown, moved_at = line, monotonic()
            if now.has_ended:
                break
            if monotonic() - moved_at > _PATIENCE_S:
                raise ClientError(_silence(now))
            await asyncio.sleep(_LOOK_S)
            now = await _looked_at(agent)
    for failure in now.failures:
        out.write(f"not rebuilt: {harmless(failure)}\n")
    if now.left_out:
        out.write(f"{now.left_out} edges that were added by hand under an earlier version are in no record: add them\n")
    return 1 if now.failed else 0


async def _looked_at(agent: Agent) -> MemoryRebuild:
    now = await agent.management.memory_rebuild()
    if now.stage is None:
        raise ClientError("nobody knows of the rebuild any more, as Redis has lost it: begin again")
    return now


def _line(now: MemoryRebuild) -> str:
    failed = f", {now.failed} failed" if now.failed else ""
    if now.has_ended:
        return f"the memory is rebuilt from {now.done} tasks{failed}"
    waits = f"; waits: {harmless(now.waits_for)}" if now.waits_for else ""
    return f"{now.stage}: {now.done} of {now.total} tasks{failed}{waits}"


def _silence(now: MemoryRebuild) -> str:
    if now.waits_for:
        return f"the rebuild waits: {now.waits_for}. It goes on by itself; `pentad memory rebuild` shows how far it is"
    return "nothing happens: see that an archiver runs, and has both stores open (pentad doctor)"
