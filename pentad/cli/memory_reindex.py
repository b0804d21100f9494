"""``pentad memory reindex``: the memory is embedded anew with the model in use; what it has is found meanwhile."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from time import monotonic

from pentad.cli.gateway import operator_for, streams
from pentad.cli.render import harmless
from pentad.client.agent import Agent
from pentad.errors import ClientError
from pentad.shared.settings import Settings

_LOOK_S = 1.0
_PATIENCE_S = 60.0
"""How long nothing may happen before it is given up."""
_QUIET_S = 5.0
"""How long nothing may happen before that is said."""
_UNKNOWN = "see that an archiver runs, and what its log and `pentad doctor` name"
"""Why nothing happens, where no archiver says what it waits for."""


async def reindex(args: argparse.Namespace, settings: Settings) -> int:
    """Ask for it, show how far it is, switch at the end. Killed and begun again, it goes on."""
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        left, why, moved_at = -1, _UNKNOWN, monotonic()
        async for now, waits_for in _passes(agent):
            why = _UNKNOWN if waits_for is None else f"an archiver says: {harmless(waits_for)}"
            if now == left and monotonic() - moved_at > _QUIET_S:
                out.write(f"nothing has been embedded for {_QUIET_S:g} s: {why}\n")
                out.flush()
                moved_at = float("inf")
            if now != left:
                moved_at = monotonic()
                out.write(f"{now} tasks left\n")
                out.flush()
            left = now
        if left and not args.force:
            raise ClientError(
                f"{left} tasks are not embedded, and nothing happens: {why}. "
                "What has no record any more cannot be embedded: --force goes on without it"
            )
        name, kept = await agent.management.reindex_switch(force=args.force)
    out.write(f"the memory is {name} now\n")
    if kept is not None:
        out.write(f"{kept} has more than that, and is kept: what it alone has is not found\n")
    return 0


async def _passes(agent: Agent) -> AsyncIterator[tuple[int, str | None]]:
    """How many tasks are left and what is waited for, again and again, until it is none, or none has gone for long."""
    best, moved_at = -1, monotonic()
    while True:
        left, waits_for = await agent.management.reindex_progress(queue=best < 0)
        yield left, waits_for
        if best < 0 or left < best:
            best, moved_at = left, monotonic()
        if not left or monotonic() - moved_at > _PATIENCE_S:
            return
        await asyncio.sleep(_LOOK_S)
