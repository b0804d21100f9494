"""What an archiver waits for before it remembers what has ended: it says so every two seconds while it waits."""

import asyncio
from collections.abc import Callable

from pentad.shared.keys import MEMORY_WAITS
from pentad.shared.store.store import Store

_EVERY_S = 2.0
_TTL_S = 6
"""How long an archiver's words are kept. A key that ends later was written before the clock of Redis stepped back."""
_LONGEST = 1000
"""Characters of a reason."""


async def keep_telling_wait(store: Store, look: Callable[[], str | None]) -> None:
    """Say it, for ever. Of several archivers that wait the last one's reason is told. Outages harm nothing.

    ``look``: the reason; None while nothing is waited for.
    """
    while True:
        if (reason := look()) is not None:
            store.send("SET", MEMORY_WAITS, reason[:_LONGEST].encode("utf-8", "replace"), "EX", _TTL_S)
        await asyncio.sleep(_EVERY_S)


async def memory_wait(store: Store) -> str | None:
    """What an archiver has said lately that it waits for; None where none waits. Raises ``OutageError``."""
    reason, left_s = await asyncio.gather(store.call("GET", MEMORY_WAITS), store.call("TTL", MEMORY_WAITS))
    return None if reason is None or left_s > _TTL_S else reason.decode("utf-8", "replace")
