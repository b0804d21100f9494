"""The embedding service's composition root."""

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from contracts.streams import EMBED
from services.embedding.handlers import Embedding
from shared.bus.consumer import Consumer
from shared.bus.entries import EntryHandler
from shared.bus.housekeeping import Housekeeping
from shared.models.registry import make_embedding_model
from shared.service.background import Background, wait_for_redis
from shared.settings import Settings
from shared.state.cluster import agree
from shared.state.store import Store

_SLOTS = 128


class EmbeddingService:
    """Embeds texts for the other services."""

    name = "embedding"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = Store(settings.redis())
        consumer = f"embedding-{uuid4().hex[:12]}"
        self._model = make_embedding_model(
            kind=settings.embed_model_type,
            name=settings.embed_model_name,
            api_key=settings.embed_api_key.get_secret_value() if settings.embed_api_key else None,
            base_url=settings.embed_base_url,
        )
        embedding = Embedding(self._store, self._model)
        self._handlers: list[EntryHandler] = []
        for shard in range(settings.pentad_shards):
            handler = EntryHandler(self._store, embedding.handle, settings.pentad_max_attempts)
            handler.consumer = Consumer(
                self._store, EMBED, EMBED.key(shard), shard, consumer, handler, _SLOTS, settings.lease_ms
            )
            self._handlers.append(handler)
        self._consumers = [h.consumer for h in self._handlers]
        self._background = Background()

    async def start(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)
        streams = [(c.stream, c.key) for c in self._consumers]
        for loop in (*(h.beat() for h in self._handlers), Housekeeping(self._store, streams).run()):
            self._background.run(loop)
        for consumer in self._consumers:
            await consumer.start()

    async def stop(self) -> None:
        await asyncio.gather(*(c.stop_reading() for c in self._consumers))
        await asyncio.gather(*(h.interrupt() for h in self._handlers))
        await asyncio.gather(*(c.drain() for c in self._consumers))
        await self._background.stop()
        await self._store.close()

    def checks(self) -> Mapping[str, str | None]:
        return {"redis": self._store.trouble, "embedding": None if self.alive() else "a loop has ended"}

    def alive(self) -> bool:
        return self._background.alive() and all(c.alive() for c in self._consumers)


def build(settings: Settings) -> EmbeddingService:
    """The embedding service, ready to start."""
    return EmbeddingService(settings)
