"""The turn of looking after the schedules, which one gateway at a time has, so that the others need not look."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from secrets import token_hex

from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.keys import SCHEDULES_TURN
from pentad.shared.store.beats import write_before_stop
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

_IDLE_S = 0.25
"""Seconds until the next look after one that found nothing."""
_COMPETE_S = 1.0
"""Seconds between two attempts to get the turn."""
_TURN_MS = 5_000
"""Milliseconds after which a gateway that looks no more has lost the turn."""


class TurnLoop:
    """Calls a function again and again while this process has the turn. ``look`` returns how much it has found."""

    def __init__(self, store: Store, look: Callable[[], Awaitable[int]]) -> None:
        self._store, self._look, self._holder = store, look, token_hex(16)

    async def run(self) -> None:
        """Look for ever. An outage of Redis is waited for; nothing is lost, only late."""
        while True:
            try:
                if not await self._store.run("turn", [SCHEDULES_TURN], [self._holder, _TURN_MS]):
                    await asyncio.sleep(_COMPETE_S)
                    continue
                found = await self._look()
            except OutageError as error:
                _say.warning("wait", "schedules wait: %s", error)
                found = 0
            except ResponseError as error:
                self._store.stumbled("schedules", error)
                found = 0
            if not found:
                await asyncio.sleep(_IDLE_S)

    async def release(self) -> None:
        """Let another process have the turn at once. In an outage the turn ends by itself."""
        await write_before_stop(self._store, "schedules", self._leave())

    async def _leave(self) -> None:
        await self._store.run("turn", [SCHEDULES_TURN], [self._holder, 0])
