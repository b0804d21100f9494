"""The task-runner's composition root."""

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from contracts.streams import TASK_WAKE
from services.task_runner.handlers import RunnerHandler
from shared.bus.consumer import Consumer
from shared.bus.housekeeping import Housekeeping
from shared.bus.timers import TimerLoop
from shared.models.registry import make_chat_model
from shared.service.background import Background, wait_for_redis
from shared.settings import Settings
from shared.state.actors import Actors, LeaseKeeper
from shared.state.cluster import agree
from shared.state.store import Store
from shared.state.tool_catalog import ToolCatalog

_SLOTS = 256


class TaskRunner:
    """Runs tasks step by step; keeps nothing of a task between two steps."""

    name = "task-runner"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.redis())
        consumer = f"task-runner-{uuid4().hex[:12]}"
        actors = Actors(self._store, consumer, settings.lease_ms)
        self._keeper = LeaseKeeper(actors)
        key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
        self._model = make_chat_model(model_id=settings.llm_model_id, api_key=key, base_url=settings.llm_base_url)
        tools = ToolCatalog(self._store)
        shards = range(settings.pentad_shards)
        self._handlers = [RunnerHandler(actors, self._keeper, self._model, tools, settings, shard) for shard in shards]
        self._consumers = [
            Consumer(
                self._store, TASK_WAKE, TASK_WAKE.key(s), s, consumer, self._handlers[s], _SLOTS, settings.lease_ms
            )
            for s in shards
        ]
        self._timers = TimerLoop(self._store, shards)
        self._housekeeping = Housekeeping(self._store, [(c.stream, c.key) for c in self._consumers])
        self._background = Background()
        self._warming: asyncio.Task[None] | None = None
        """The model's client is imported beside the work, not in the first step."""

    async def start(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)
        for loop in (self._keeper.run(), self._timers.run(), self._housekeeping.run()):
            self._background.run(loop)
        for consumer in self._consumers:
            await consumer.start()
        self._warming = asyncio.create_task(asyncio.to_thread(self._model.warm))

    async def stop(self) -> None:
        await asyncio.gather(*(c.stop_reading() for c in self._consumers))
        for handler in self._handlers:
            handler.interrupt()
        await asyncio.gather(*(c.drain() for c in self._consumers))
        await self._background.stop()
        if self._warming is not None:
            await self._warming
        await self._model.aclose()
        await self._store.close()

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self._store.trouble, "running": None if self.alive() else "a loop has ended"}

    def alive(self) -> bool:
        return self._background.alive() and all(c.alive() for c in self._consumers)


def build(settings: Settings) -> TaskRunner:
    """The task-runner, ready to start."""
    return TaskRunner(settings)
