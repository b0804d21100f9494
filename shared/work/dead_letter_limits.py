"""Dead letters are bounded in number and in age: what nobody has redriven or discarded by then is dropped, and told."""

import asyncio
import logging
from collections.abc import Sequence

from redis.exceptions import RedisError

from pentad.contracts.streams import DEAD, INBOUND_DEAD
from pentad.shared.errors import OutageError
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

_EVERY_S = 10.0
_FIRST_TIME = 10**12
"""The number of an entry's id that can be a time in ms: of the year 2001."""
_LETTERS_PER_READ = 20
"""Letters that are read at once: each has up to a MiB."""


class DeadLetterLimits:
    """Keeps the streams of dead letters within `PENTAD_DEAD_MAXLEN` and `PENTAD_DEAD_TTL_S`. Every router does."""

    def __init__(self, store: Store, settings: Settings, shards: Sequence[int]) -> None:
        self._store, self._settings = store, settings
        self._streams = [INBOUND_DEAD.key(), *(DEAD.key(shard) for shard in shards)]

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.once()
            except (OutageError, RedisError) as error:
                _say.warning("waits", "dead letters are not bounded now: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Drop what is too old, then what is too many."""
        oldest = max(0, await self._store.clock() - self._settings.pentad_dead_ttl_s * 1000)
        for key in self._streams:
            aged = await self._drop_older(key, oldest)
            if aged:
                line = "%d dead letters of %s were older than PENTAD_DEAD_TTL_S: dropped"
                _say.warning(f"age {key}", line, aged, key)
            surplus = await self._store.call("XTRIM", key, "MAXLEN", self._settings.pentad_dead_maxlen)
            if surplus:
                _say.error(f"number {key}", "%d dead letters of %s were over PENTAD_DEAD_MAXLEN: dropped", surplus, key)

    async def _drop_older(self, key: str, oldest: int) -> int:
        """Entries whose ids are times, and older than that: a producer's own ids may be no times at all."""
        dropped = 0
        while found := await self._store.call("XRANGE", key, _FIRST_TIME, f"({oldest}-0", "COUNT", _LETTERS_PER_READ):
            dropped += await self._store.call("XDEL", key, *(entry for entry, _ in found))
        return dropped
