"""Loops that run as long as a service does; one that ends turns liveness red."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from pentad.shared.event_loop import cancel_all
from pentad.shared.store.admission import admit
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)


class Background:
    """A service's endless loops."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._stopping = False

    def run(self, loop: Coroutine[Any, Any, None]) -> None:
        """Run a loop until `stop`."""
        task = asyncio.create_task(loop)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not self._stopping and not task.cancelled() and task.exception() is not None:
            log.error("a loop that should run for ever ended: %r", task.exception())

    def alive(self) -> bool:
        """Whether all loops still run."""
        return all(not task.done() for task in self._tasks)

    async def stop(self) -> None:
        """End the loops."""
        self._stopping = True
        await cancel_all(self._tasks)
        self._tasks.clear()


async def wait_for_redis(store: Store, who: str) -> None:
    """Wait until Redis answers and can be worked with, saying what is waited for (hazard 11)."""
    await admit(store, who)
