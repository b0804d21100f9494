"""Holds an embedded Redis until it is killed: ``python -m tests.integration.embedded.hold DATA_DIR [unguarded]``."""

import asyncio
import sys
from pathlib import Path

from pentad.shared.embedded.embedded import EmbeddedRedis
from pentad.shared.embedded.redis_child import ask


async def hold(data_dir: Path, guarded: bool) -> None:
    """``guarded`` False: as if it had been killed before the server's guard was there."""
    server = EmbeddedRedis(data_dir)
    url = await server.start()
    if not guarded:
        server._running.dismiss_guard()
    await ask(url, "SET", "held", "yes")
    print(f"ready on {url}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1]), "unguarded" not in sys.argv))
