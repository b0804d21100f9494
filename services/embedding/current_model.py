"""The embedding model that is asked now: the registry's default, and another one when that changes."""

import logging
from collections.abc import Callable, Sequence
from time import monotonic

from pentad.contracts.ids import rfc3339
from pentad.contracts.models import MOST_LEARNED, ModelEntry, ModelHealth
from pentad.contracts.streams import EMBED
from pentad.services.embedding.handlers import Embedding
from pentad.shared import metrics
from pentad.shared.errors import SettingsError
from pentad.shared.models.configured_models import configured_models, environment_embedding
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.model_list import KnownModel
from pentad.shared.models.model_makers import make_embedding_of_entry
from pentad.shared.models.openai_embedding import OpenAIEmbedding
from pentad.shared.models.ports import ModelFailed, ModelMisconfigured
from pentad.shared.settings import Settings
from pentad.shared.work.entry import Entry

log = logging.getLogger(__name__)


class WatchedEmbedding:
    """An embedding model that notes whether the last request of the model behind it was answered.

    ``entry`` is that of the registry.
    """

    def __init__(self, model: EmbeddingModel, entry: ModelEntry) -> None:
        self._model, self._entry = model, entry
        self._failure: ModelFailed | None = None
        self._since = monotonic()

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model.name

    @property
    def place(self) -> str | None:
        """The address of the model, without anything secret."""
        return self._model.place

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors; None until it is known."""
        return self._model.dimensions

    @property
    def most_texts(self) -> int:
        """Number of texts that one request may hold."""
        return self._model.most_texts

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, as the model behind it does."""
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
        """Return the health of the model, and set its metric. ``now``: server time in ms."""
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


class CurrentEmbedding:
    """Hands each request to the model of its time. Raises ``SettingsError`` when the first model cannot be asked.

    ``start`` makes the service of a model. Vectors of two models must not be compared, so no service has anything of
    another.
    """

    def __init__(self, settings: Settings, start: Callable[[EmbeddingModel], Embedding]) -> None:
        self._settings, self._start = settings, start
        self._configured = configured_models(settings)
        self._known = self._configured.and_registered(()).embedding
        self.model = self._made(self._known)
        self._embedding = start(self.model)
        self._before: list[WatchedEmbedding] = []

    def use(self, registered: Sequence[ModelEntry]) -> None:
        """Take the default model of this list. When it cannot be asked, that is logged and the model before stays."""
        known = self._configured.and_registered(registered).embedding
        if known.entry == self._known.entry:
            return
        self._known = known
        try:
            model = self._made(known)
        except SettingsError as error:
            log.error("the default embedding model cannot be used, %s stays: %s", self.model.name, error)
            return
        log.warning("texts are embedded by %s from now on, no more by %s", model.name, self.model.name)
        self._before.append(self.model)
        self.model, self._embedding = model, self._start(model)

    def _made(self, known: KnownModel) -> WatchedEmbedding:
        self._configured.check_key(known)
        ours = known.source == "environment"
        model = environment_embedding(self._settings) if ours else make_embedding_of_entry(known.entry)
        return WatchedEmbedding(model, known.entry)

    def health(self, now: int) -> list[ModelHealth]:
        """Return the health of the current model. ``now``: server time in ms."""
        return self.model.health(now)

    async def handle(self, entry: Entry) -> None:
        """Answer one request."""
        await self._embedding.handle(entry)

    async def close(self) -> None:
        """Close all connections, also those of models before, whose requests may have lasted."""
        for model in (self.model, *self._before):
            await model.aclose()
