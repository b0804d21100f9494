"""A sentence-transformer in this process: texts of like meaning are near. English; no key, no network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from pentad.shared.errors import SettingsError
from pentad.shared.models.embeddings import MOST_TEXTS
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.models.sentence_transformer import (
    DIMENSIONS,
    MODEL,
    SentenceTransformer,
    require_installed,
    runs,
)

T = TypeVar("T")


class LocalEmbedding:
    """all-MiniLM-L6-v2. Vectors have length 1; what is beyond the first 256 tokens of a text does not count.

    It is loaded by the first call (0.5 s). One thread computes, off the event loop; calls take turns at it, so that a
    short one waits for no more than a part of a long one. Raises ``SettingsError`` when the extra is not installed.
    """

    def __init__(self) -> None:
        require_installed()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")
        self._loaded: SentenceTransformer | None = None

    @property
    def name(self) -> str:
        """Model and version."""
        return MODEL

    @property
    def place(self) -> None:
        """Here."""
        return None

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return DIMENSIONS

    @property
    def most_texts(self) -> int:
        """As everywhere."""
        return MOST_TEXTS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order.

        Raises `ModelUnavailable`; the first call also ``SettingsError``, for files that are not those of this version.
        """
        vectors: dict[int, list[float]] = {}
        computing = self._compute(texts, vectors)
        while len(vectors) < len(texts):
            await self._in_thread(partial(next, computing))
        return [vectors[index] for index in range(len(texts))]

    async def aclose(self) -> None:
        """End the thread. Safe to call twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _compute(self, texts: Sequence[str], vectors: dict[int, list[float]]) -> Iterator[None]:
        """Fill in the vectors, by the places of their texts; each step is one run."""
        if self._loaded is None:
            self._loaded = SentenceTransformer()
        tokens = self._loaded.tokens(texts)
        for run in runs(tokens):
            made = self._loaded.vectors([tokens[index] for index in run])
            vectors.update(zip(run, made, strict=True))
            yield

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except SettingsError:
            raise
        except Exception as error:
            raise ModelUnavailable(f"the local embedding failed: {error!r}; try again later") from error
