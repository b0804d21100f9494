"""An embedding model, and whether its last request was answered."""

from collections.abc import Sequence
from time import monotonic

from pentad.contracts.ids import rfc3339
from pentad.contracts.models import MOST_LEARNED, ModelEntry, ModelHealth
from pentad.contracts.streams import EMBED
from pentad.shared import metrics
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import ModelFailed, ModelMisconfigured


class WatchedEmbedding:
    """The port `EmbeddingModel` in front of another. ``entry``: the registry's."""

    def __init__(self, model: EmbeddingModel, entry: ModelEntry) -> None:
        self._model, self._entry = model, entry
        self._failure: ModelFailed | None = None
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
            self._now(error)
            raise
        self._now(None)
        return vectors

    def _now(self, failure: ModelFailed | None) -> None:
        if (failure is None) is not (self._failure is None):
            self._since = monotonic()
        self._failure = None if failure is None else failure.with_traceback(None)

    def health(self, now: int) -> list[ModelHealth]:
        """How it does, told to the metrics too. ``now``: server time in ms."""
        failing = self._failure is not None
        learned = self._model.learned if isinstance(self._model, OpenAIEmbedding) else ()
        metrics.model_state.labels(EMBED.group or "", self._entry.id).set(int(failing))
        return [
            ModelHealth(
                id=self._entry.id,
                kind=self._entry.kind,
                state="failing" if failing else "ok",
                since=rfc3339(now - round((monotonic() - self._since) * 1000)),
                error=None if self._failure is None else str(self._failure),
                refused=isinstance(self._failure, ModelMisconfigured),
                learned=learned[:MOST_LEARNED],
                model=self.name,
                place=self.place,
            )
        ]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._model.aclose()
