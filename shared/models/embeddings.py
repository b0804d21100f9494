"""The port of embedding models, and the hashing stand-in that needs no model."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol
from zlib import crc32

from pentad.shared.event_loop import TimeSlices

_WORD = re.compile(r"\w+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_TRIGRAM_WEIGHT = 0.3


class EmbeddingModel(Protocol):
    """A model that turns texts into vectors. Raises `ModelFailed` (see `ports`) and nothing else."""

    @property
    def name(self) -> str:
        """The model's id: vectors of models with different names must not be compared."""
        ...

    @property
    def place(self) -> str | None:
        """The address of the server, without anything secret; None for a model that embeds in this process."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors; None until the first answer of a model that was not given a length."""
        ...

    @property
    def most_texts(self) -> int:
        """Number of texts that one request may hold."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order, from one request: the caller makes the batches."""
        ...

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        ...


MAX_TEXTS = 64
"""Texts that one request may hold, where the model sets no lower bound."""
_TEXTS_PER_TURN = 16
"""Texts that are hashed before other tasks have their turn, at 30 us each."""
MAX_DIMENSIONS = 4096
"""Numbers that a vector may have."""
MAX_ABSOLUTE_VALUE = 3e38
"""The largest absolute value that a vector may have: vectors are kept as floats of four bytes."""


class HashingEmbedding:
    """Feature hashing of words and character trigrams: no model, no network, the same vector in every process.

    Texts that share words or parts of words are near; meaning is not understood. Vectors have length 1.
    """

    def __init__(self, dimensions: int = 384) -> None:
        if dimensions < 1:
            raise ValueError("dimensions must be at least 1")
        self._dimensions = dimensions
        self._pieces = TimeSlices(_TEXTS_PER_TURN)

    @property
    def name(self) -> str:
        """The name `simple-N`, with N dimensions."""
        return f"simple-{self._dimensions}"

    @property
    def place(self) -> None:
        """No address: the model runs in this process."""
        return None

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return self._dimensions

    @property
    def most_texts(self) -> int:
        """Number of texts that one request may hold."""
        return MAX_TEXTS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text. Other tasks of this process have their turn after every few texts."""
        making = map(self.vector, texts)
        vectors: list[list[float]] = []
        while len(vectors) < len(texts):
            vectors += await self._pieces.next(making)
        return vectors

    def vector(self, text: str) -> list[float]:
        """Return the vector of one text. A text without a word has a direction of its own, so that its length is 1."""
        sums = [0.0] * self._dimensions
        for word in _words(text) or [""]:
            for place, weight in _features(word, self._dimensions):
                sums[place] += weight
        return _normalised(sums)

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@lru_cache(maxsize=16_384)
def _features(word: str, dimensions: int) -> tuple[tuple[int, float], ...]:
    """Return the positions and weights of a word's features."""
    hashed = ((crc32(feature.encode("utf-8", "replace")), weight) for feature, weight in _parts(word))
    # The lowest bit gives the sign, the others the place: collisions cancel instead of adding up.
    return tuple(((number >> 1) % dimensions, weight if number & 1 else -weight) for number, weight in hashed)


def _parts(word: str) -> Iterator[tuple[str, float]]:
    yield f"w:{word}", 1.0
    if _WIDE.search(word):
        # Chinese and Japanese put no spaces between words: their characters and pairs stand for them.
        yield from ((f"w:{char}", 0.5) for char in word if len(word) > 1)
        yield from ((f"b:{word[at : at + 2]}", 1.0) for at in range(len(word) - 1))
        return
    padded = f"^{word}$"
    yield from ((f"t:{padded[at : at + 3]}", _TRIGRAM_WEIGHT) for at in range(len(padded) - 2))


def _normalised(sums: list[float]) -> list[float]:
    length = math.hypot(*sums)
    if length == 0.0:  # every feature cancelled another: any fixed direction will do
        return [1.0, *sums[1:]]
    return [value / length for value in sums]
