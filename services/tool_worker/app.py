"""The tool-worker's composition root."""

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from contracts.streams import TOOL_CALLS
from contracts.tools import ToolSpec
from services.tool_worker.builtins.catalogue import BUILTINS
from services.tool_worker.children.pool import ToolProcesses
from services.tool_worker.handlers import ToolHandler
from shared.bus.consumer import Consumer
from shared.bus.housekeeping import Housekeeping
from shared.errors import OutageError
from shared.service.background import Background, wait_for_redis
from shared.settings import Settings
from shared.state.cluster import agree
from shared.state.store import Store, guarded
from shared.state.tool_registry import publish

UNSAFE_GRACE_S = 23.0
"""What a started unsafe call is given at a stop before it is reported as unknown."""
_PUBLISH_S = 30.0


class ToolWorker:
    """Runs tool calls of the queues that its tools name."""

    name = "tool-worker"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.redis())
        self._consumer_name = f"tool-worker-{uuid4().hex[:12]}"
        self._processes = ToolProcesses(
            settings.pentad_plugins, settings.pentad_tool_processes, settings.pentad_tool_threads
        )
        self._handlers: list[ToolHandler] = []
        self._consumers: list[Consumer] = []
        self._background = Background()

    def _specs(self) -> list[ToolSpec]:
        return [tool.spec for tool in BUILTINS.values()] + list(self._processes.tools.values())

    async def start(self) -> None:
        await self._processes.start()
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)
        for queue in sorted({spec.queue for spec in self._specs()}):
            for shard in range(self._settings.pentad_shards):
                self._serve(queue, shard)
        streams = [(c.stream, c.key) for c in self._consumers]
        for loop in (*(h.beat() for h in self._handlers), Housekeeping(self._store, streams).run()):
            self._background.run(loop)
        for consumer in self._consumers:
            await consumer.start()
        await guarded("publish tools", lambda: publish(self._store, self._specs()))
        self._background.run(self._publish())

    def _serve(self, queue: str, shard: int) -> None:
        handler = ToolHandler(self._store, self._settings, self._processes, shard, self._consumer_name)
        handler.consumer = Consumer(
            self._store,
            TOOL_CALLS,
            TOOL_CALLS.key(shard, queue=queue),
            shard,
            self._consumer_name,
            handler,
            self._settings.pentad_tool_concurrency,
            self._settings.lease_ms,
        )
        self._handlers.append(handler)
        self._consumers.append(handler.consumer)

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(_PUBLISH_S)
            try:
                await publish(self._store, self._specs())
            except OutageError:
                continue

    async def stop(self) -> None:
        await asyncio.gather(*(c.stop_reading() for c in self._consumers))
        await asyncio.gather(*(h.finish(UNSAFE_GRACE_S) for h in self._handlers))
        await asyncio.gather(*(c.drain() for c in self._consumers))
        await self._background.stop()
        await self._processes.stop(0)
        await self._store.close()

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self._store.trouble, "tools": None if self.alive() else "a loop has ended"}

    def alive(self) -> bool:
        return self._background.alive() and all(c.alive() for c in self._consumers)


def build(settings: Settings) -> ToolWorker:
    """The tool-worker, ready to start."""
    return ToolWorker(settings)
