"""Vectors of the texts of an evaluation, each asked for once; what a message costs is measured apart."""

import time
from collections.abc import Iterable, Sequence

from pentad.shared.digests.task_digest import Sketch, sketch_of
from pentad.shared.models.embeddings import EmbeddingModel

_BATCH = 32


class EmbeddedTexts:
    """What the embedding model makes of texts. ``model``: None where words decide alone, as they do with `simple`."""

    def __init__(self, model: EmbeddingModel | None) -> None:
        self._model = model
        self._known: dict[str, Sketch | None] = {}

    async def learn(self, texts: Iterable[str]) -> None:
        """Embed what is not known yet, in batches, short texts with short ones."""
        if self._model is None:
            return
        missing = sorted({text for text in texts if text not in self._known}, key=len)
        most = min(_BATCH, self._model.most_texts)
        for at in range(0, len(missing), most):
            batch = missing[at : at + most]
            self._remember(self._model.name, batch, await self._model.embed(batch))

    def sketch(self, text: str) -> Sketch | None:
        """Of a text that was learnt."""
        return None if self._model is None else self._known[text]

    async def timed(self, text: str) -> tuple[Sketch | None, float]:
        """One text asked for by itself, as routing does, and the seconds that it took."""
        if self._model is None:
            return None, 0.0
        begun = time.perf_counter()
        (vector,) = await self._model.embed([text])
        sketch = sketch_of(self._model.name, vector)
        return sketch, time.perf_counter() - begun

    def _remember(self, name: str, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        for text, vector in zip(texts, vectors, strict=True):
            self._known[text] = sketch_of(name, vector)
