"""The embedding service's composition root."""

from collections.abc import Coroutine, Iterable
from typing import Any

from pentad.contracts.streams import EMBED
from pentad.services.embedding.handlers import Embedding
from pentad.shared.models.registry import make_embedding_model
from pentad.shared.presence.in_use import ModelInUse, keep_announcing
from pentad.shared.service.consuming import EntryService
from pentad.shared.settings import Settings

_SLOTS = 128


class EmbeddingService(EntryService):
    """Embeds texts for the other services."""

    name = "embedding"
    check = "embedding"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._model = make_embedding_model(
            kind=settings.embed_model_type,
            name=settings.embed_model_name,
            api_key=settings.embed_api_key.get_secret_value() if settings.embed_api_key else None,
            base_url=settings.embed_base_url,
        )
        self.serve_entries(EMBED, Embedding(self.store, self._model).handle, _SLOTS)

    async def prepare(self) -> None:
        if self._model.place is None:  # what computes here is loaded before work comes
            await self._model.embed([""])

    async def close(self) -> None:
        await self._model.aclose()

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        return [*super().loops(), keep_announcing(self.store, self.consumer_name, self._in_use)]

    def _in_use(self) -> ModelInUse:
        return ModelInUse(service=self.name, model=self._model.name, place=self._model.place)


def build(settings: Settings) -> EmbeddingService:
    """The embedding service, ready to start."""
    return EmbeddingService(settings)
