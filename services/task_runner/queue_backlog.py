"""How many tool calls wait in each queue, as a metric: also of queues that no tool-worker serves."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NoReturn

from pentad.contracts.streams import TOOL_CALLS
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))
_EVERY_S = 5.0
_MAX_COUNTED = 10_000
"""Calls of a queue of one shard that are counted one by one, where Redis has lost count of them."""


class QueueBacklog:
    """Measures the queues that the published tools name, and those that they have named before."""

    def __init__(self, store: Store, shards: Sequence[int], tools: ToolCatalog) -> None:
        self._store, self._shards, self._tools = store, shards, tools
        self._queues: set[str] = set()

    async def run(self) -> NoReturn:
        """Measure for ever; what is measured late harms nothing."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.once()
            except OutageError as error:
                _say.warning("waits", "the backlog of queues is not measured for now: %s", error)
            except Exception as error:  # a key of another kind, say: the next measuring may find it mended
                self._store.stumbled("the backlog of queues", error)

    async def once(self) -> None:
        """Measure each queue once."""
        self._queues |= {spec.queue for spec in (await self._tools.specs()).values()}
        for queue in sorted(self._queues):
            waiting = [await self._waiting(TOOL_CALLS.key(shard, queue=queue)) for shard in self._shards]
            metrics.queue_backlog.labels(queue).set(sum(waiting))

    async def _waiting(self, stream: str) -> int:
        """Return how many calls of a queue of one shard no worker has taken."""
        for group in await self._store.groups(stream):
            if group[b"name"].decode() == TOOL_CALLS.group:
                lag = group.get(b"lag")
                if lag is None:
                    lag = await self._store.run("lag", [stream], [group[b"last-delivered-id"], _MAX_COUNTED])
                return int(lag)
        return int(await self._store.call("XLEN", stream))
