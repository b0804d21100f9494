"""Embeddings from any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from pentad.shared.models.embeddings import LARGEST, MOST_TEXTS
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.ports import ModelRefused, ModelTooLong, ModelUnavailable

_MOST_VECTOR = 512 * 1024
"""Bytes of an answer for each text: 16,384 numbers. What is read of it takes up to thirty times as much."""

_LEAST = 64
"""Characters of a text that is not cut further: no model takes fewer."""


class OpenAIEmbedding:
    """`dimensions` None takes the model's own length, known after the first answer. `timeout_s` bounds one request."""

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str,
        *,
        dimensions: int | None = None,
        most_texts: int = MOST_TEXTS,
        timeout_s: float = 60.0,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key)
        self._model = model
        self._asked = dimensions
        self._dimensions = dimensions
        self._most_texts = most_texts
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model

    @property
    def place(self) -> str:
        """The endpoint."""
        return self._endpoint.place

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors, None until it is known."""
        return self._dimensions

    @property
    def most_texts(self) -> int:
        """What the endpoint takes in one request."""
        return self._most_texts

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order, in one request. Raises `ModelRefused` or `ModelUnavailable`.

        Of a text that is too long, and asked for alone, the beginning counts.
        """
        if not texts:
            return []
        try:
            return await self._embedded(texts)
        except ModelTooLong:
            [text, *others] = texts
            if others or len(text) <= _LEAST:
                raise
        return await self.embed([text[: len(text) // 2]])

    async def _embedded(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                answer = await self._endpoint.fetch("/embeddings", self._body(texts), _MOST_VECTOR * len(texts))
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelUnavailable(f"no embedding from {self._endpoint.place} in time; try again later") from None
        return self._vectors(answer, len(texts))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {
            "model": self._model,
            "input": [text.encode("utf-8", "replace").decode() for text in texts],
            "encoding_format": "float",
        }
        if self._asked is not None:
            body["dimensions"] = self._asked
        return to_json(body)

    def _vectors(self, answer: dict[str, Any], count: int) -> list[list[float]]:
        try:
            rows = [(int(row["index"]), [float(value) for value in row["embedding"]]) for row in answer["data"]]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._refused("no vectors") from None
        if not all(all(map(math.isfinite, v)) and max(map(abs, v), default=0.0) <= LARGEST for _, v in rows):
            raise self._refused("a vector whose values are not all numbers")
        vectors = [vector for _, vector in sorted(rows, key=lambda row: row[0])]
        lengths = {len(vector) for vector in vectors}
        if sorted(index for index, _ in rows) != list(range(count)) or len(lengths) != 1:
            raise self._refused(f"{len(rows)} vectors for {count} texts")
        length = lengths.pop()
        if self._dimensions not in (None, length):
            raise self._refused(f"vectors of length {length} instead of {self._dimensions}")
        self._dimensions = length
        return vectors

    def _refused(self, what: str) -> ModelRefused:
        return ModelRefused(f"{self._endpoint.place}/embeddings answered {what}; check EMBED_MODEL_NAME")
