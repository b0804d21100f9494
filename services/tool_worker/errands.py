"""Errands: what a worker tells Redis beside the calls that it runs, for which no call waits."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.store.beats import write_before_stop
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))


class Errands:
    """Runs errands of one kind, each in a task of its own. ``kind``: the kind in words, for the log.

    An errand that fails is not repeated: what it would have told is made good by time.
    """

    def __init__(self, store: Store, kind: str) -> None:
        self._store, self._kind = store, kind
        self._running: set[asyncio.Task[None]] = set()

    def run(self, errand: Coroutine[Any, Any, object]) -> None:
        """Begin an errand."""
        task = asyncio.ensure_future(self.quietly(errand))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def quietly(self, errand: Coroutine[Any, Any, object]) -> None:
        """Carry out an errand here; a failure of it is logged."""
        try:
            await errand
        except OutageError as error:
            _say.warning(self._kind, "%s wait: %s", self._kind, error)
        except Exception as error:  # of one errand: the others go on
            self._store.stumbled(self._kind, error)

    async def finish(self, last: str) -> None:
        """Wait for the errands that run, at a stop; not for long without Redis. ``last``: what they tell, in words."""
        await write_before_stop(self._store, last, self._settle())
        await cancel_all(self._running)

    async def _settle(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
