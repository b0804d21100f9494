"""Text to vectors: the port, and the stand-in that needs no model."""

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
    """Turns texts into vectors. Raises `ModelFailed` (see `ports`) and nothing else."""

    @property
    def name(self) -> str:
        """The model's id: vectors of different names do not compare."""
        ...

    @property
    def place(self) -> str | None:
        """The address it is asked at, without anything secret; None for what embeds in this process."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors; None until the first answer of a model that was not told."""
        ...

    @property
    def most_texts(self) -> int:
        """How many texts one request may hold."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, in one request: batching is the caller's."""
        ...

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        ...


MOST_TEXTS = 64
"""Of one request, where the model sets no lower bound."""
_PIECE = 16
"""Texts that are hashed at once, at 30 us each."""
LARGEST = 3e38
"""What a number of four bytes holds: vectors are kept so."""


class HashingEmbedding:
    """Feature hashing of words and character trigrams: no model, no network, the same vector in every process.

    Texts that share words or parts of words are near; meaning is not understood. Vectors have length 1.
    """

    def __init__(self, dimensions: int = 384) -> None:
        if dimensions < 1:
            raise ValueError("dimensions must be at least 1")
        self._dimensions = dimensions
        self._pieces = TimeSlices(_PIECE)

    @property
    def name(self) -> str:
        """`simple-N`."""
        return f"simple-{self._dimensions}"

    @property
    def place(self) -> None:
        """Here."""
        return None

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return self._dimensions

    @property
    def most_texts(self) -> int:
        """As everywhere."""
        return MOST_TEXTS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text. After a few of them others in this process have their turn."""
        making = map(self.vector, texts)
        vectors: list[list[float]] = []
        while len(vectors) < len(texts):
            vectors += await self._pieces.next(making)
        return vectors

    def vector(self, text: str) -> list[float]:
        """The vector of one text. A text without a word has a direction of its own, so that its length is 1 too."""
        sums = [0.0] * self._dimensions
        for word in _words(text) or [""]:
            for place, weight in _features(word, self._dimensions):
                sums[place] += weight
        return _normalised(sums)

    async def aclose(self) -> None:
        """Nothing to close."""


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@lru_cache(maxsize=16_384)
def _features(word: str, dimensions: int) -> tuple[tuple[int, float], ...]:
    """Places and weights of a word's features."""
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
