"""``pentad inbound renew``: an inbound stream whose ids have run out, or lie far ahead of the clock, begins again."""

import argparse
from typing import Any

from pentad.cli.doctor.command import redis_address
from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import streams
from pentad.cli.render import plural
from pentad.errors import ClientError
from pentad.shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Replace the stream where that is needed, and say what was done. Raises ``PentadError``."""
    return run_async(_renew(settings))


async def _renew(settings: Settings) -> int:
    from pentad.shared.store.store import Store

    url, _ = redis_address(settings)
    if url is None:
        raise ClientError("no Redis to look at: set REDIS_URL, or --data-dir to that of a running `pentad up`")
    store = Store(url)
    try:
        for line in await _renewed(store):
            streams()[0].write(f"{line}\n")
    finally:
        await store.close()
    return 0


async def _renewed(store: Any) -> list[str]:
    from pentad.shared.inbound.renewal import ahead, exhausted, foreign_groups, last_id, renew

    last, now = await last_id(store.call), await store.clock()
    why = exhausted(last) or ahead(last, now)
    if why is None:
        return ["the inbound stream is in step with the clock: nothing to do"]
    others = await foreign_groups(store)
    kept = await renew(store)
    said = [why.rpartition(":")[0], f"it begins again: {plural(kept or 0, 'message')} that waited went over, in order"]
    return said + [f"group {name} is not ours and did not go over: make it again where it is served" for name in others]
