"""An embedding model, and whether its last request was answered."""

from collections.abc import Sequence
from time import monotonic

from pentad.contracts.ids import rfc3339
from pentad.contracts.models import ModelEntry, ModelHealth
from pentad.contracts.streams import EMBED
from pentad.shared import metrics
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.ports import ModelFailed


class WatchedEmbedding:
    """The port `EmbeddingModel` in front of another. ``entry``: the registry's."""

    def __init__(self, model: EmbeddingModel, entry: ModelEntry) -> None:
        self._model, self._entry = model, entry
        self._error: str | None = None
        self._since = monotonic()

    @property
    def name(self) -> str:
        """As the model's."""
        return self._model.name

    @property
    def place(self) -> str | None:
        """As the model's."""
        return self._model.place

    @property
    def dimensions(self) -> int | None:
        """As the model's."""
        return self._model.dimensions

    @property
    def most_texts(self) -> int:
        """As the model's."""
        return self._model.most_texts

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As the model does."""
        try:
            vectors = await self._model.embed(texts)
        except ModelFailed as error:
            self._now(str(error))
            raise
        self._now(None)
        return vectors

    def _now(self, error: str | None) -> None:
        if (error is None) is not (self._error is None):
            self._since = monotonic()
        self._error = error

    def health(self, now: int) -> list[ModelHealth]:
        """How it does, told to the metrics too. ``now``: server time in ms."""
        failing = self._error is not None
        metrics.model_state.labels(EMBED.group or "", self._entry.id).set(int(failing))
        return [
            ModelHealth(
                id=self._entry.id,
                kind=self._entry.kind,
                state="failing" if failing else "ok",
                since=rfc3339(now - round((monotonic() - self._since) * 1000)),
                error=self._error,
                model=self.name,
                place=self.place,
            )
        ]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._model.aclose()
