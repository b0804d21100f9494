"""The embedding service's composition root."""

from collections.abc import Coroutine, Iterable
from typing import Any

from pentad.contracts.streams import EMBED
from pentad.services.embedding.current_model import CurrentEmbedding
from pentad.services.embedding.handlers import Embedding
from pentad.shared.presence.announcements import ModelInUse, announce_model, report_health
from pentad.shared.registries.registrations import REGISTERED_MODELS
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.settings import Settings

_SLOTS = 128


class EmbeddingService(ConsumingService):
    """Embeds texts for the other services."""

    name = "embedding"
    check = "embedding"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._current = CurrentEmbedding(settings, lambda model: Embedding(self.store, model))
        self.serve_entries(EMBED, self._current.handle, _SLOTS)

    async def prepare(self) -> None:
        if self._current.model.place is None:  # what computes here is loaded before work comes
            await self._current.model.embed([""])

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        announcing = announce_model(self.store, self.consumer_name, self._in_use)
        reporting = report_health(self.store, self.consumer_name, self._current.health)
        following = REGISTERED_MODELS.keep_following(self.store, self._current.use)
        return [*super().loops(), announcing, reporting, following]

    def _in_use(self) -> ModelInUse:
        model = self._current.model
        return ModelInUse(service=self.name, model=model.name, place=model.place)

    async def close(self) -> None:
        await self._current.close()


def build(settings: Settings) -> EmbeddingService:
    """Return the embedding service, ready to start."""
    return EmbeddingService(settings)
