"""Opens a store of the memory, starts the consumers that need it, and checks it from time to time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pentad.shared.errors import MemoryDamagedError, MemoryTakenError, PentadError
from pentad.shared.models.ports import ModelFailed
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.consumer import Consumer

_say = ThrottledLog(logging.getLogger(__name__))

_RETRY_S = 1.0
"""Seconds between attempts to open a store that is taken or unavailable."""
_START_TRIES = 3
"""Attempts to open a store for which a start waits: on a busy machine the first ones may take longer than they may."""
_CHECK_S = 10.0
"""Seconds between checks of the store."""


class StoreWatch:
    """Calls ``open`` until it succeeds; then starts ``consumers``, and calls ``look`` for ever.

    A damaged store counts as open: this process has it, reports the damage to callers, and can rebuild it.
    """

    def __init__(
        self,
        name: str,
        open: Callable[[], Awaitable[None]],  # noqa: A002 - what it does
        look: Callable[[], Awaitable[None]],
        consumers: Sequence[Consumer],
    ) -> None:
        self._name, self._open, self._look, self._consumers = name, open, look, consumers
        self.opened = asyncio.Event()
        self.trouble: str | None = "it is being opened"
        """Why it cannot be used now; None when it can, or when another archiver has it."""
        self._is_damaged = False
        self._failures = 0
        """Attempts that have failed since one succeeded."""

    @property
    def is_away(self) -> bool:
        """Whether it is known that the store cannot be used, so that a start waits for it no longer."""
        return self.trouble is not None and self._failures >= (1 if self.opened.is_set() else _START_TRIES)

    async def run(self) -> None:
        """Open and check the store for ever."""
        while not (await self._tried(self._open) or self._is_damaged):
            await asyncio.sleep(_RETRY_S)
        self.opened.set()
        for consumer in self._consumers:
            await consumer.start()
        if not self._is_damaged:
            self.trouble = None  # not before: until here nobody would have answered a caller
        while True:
            looked = await self._tried(self._look)
            if looked:
                self.trouble = None
            await asyncio.sleep(_CHECK_S if looked else _RETRY_S)

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether the call succeeded. An archiver that stands by is not in trouble: another one does the work."""
        try:
            await work()
        except MemoryTakenError as error:
            _say.warning(f"{self._name} standing by", "stands by: %s", error)
            self.trouble = None
            return False
        except (PentadError, ModelFailed, OSError) as error:
            _say.warning(self._name, "the long-term memory waits: %s", error)
            self.trouble, self._is_damaged = str(error), isinstance(error, MemoryDamagedError)
            self._failures += 1
            return False
        self._failures = 0
        return True
