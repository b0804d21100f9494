"""Embeddings from any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import math
from base64 import b64decode
from collections.abc import Sequence
from functools import partial
from struct import unpack
from typing import Any

from pydantic_core import to_json

from pentad.shared.models.embeddings import MAX_ABSOLUTE_VALUE, MAX_DIMENSIONS, MAX_TEXTS
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.learned_form import Composed, LearnedForms, composed
from pentad.shared.models.ports import ModelRefused, ModelTooLong, ModelUnavailable
from pentad.shared.models.request_change import Change, most_texts, refielded

_MAX_VECTOR_BYTES = 160 * 1024
"""Bytes that an answer may have for each text, enough for `MAX_DIMENSIONS` numbers, each written in full on a line of
its own. They are read while the event loop waits."""
_MAX_ROW_VALUES = MAX_DIMENSIONS + 64
"""Values that an answer may have for each text: those of its vector, and those around it."""
_MIN_ROWS = 8
"""Vectors that fit into each answer, also one to fewer texts: so a vector that is too long is found to be one."""
_MIN_CUT_CHARS = 64
"""Characters of a text that is not cut further: every model takes as many."""


class OpenAIEmbedding:
    """An embedding model behind an endpoint.

    `dimensions` None takes the model's own length, known after the first answer. `timeout_s` bounds one request.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str,
        *,
        dimensions: int | None = None,
        most_texts: int = MAX_TEXTS,
        timeout_s: float = 60.0,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key)
        self._model = model
        self._asked = dimensions
        self._dimensions = dimensions
        self._most_texts = most_texts
        self._timeout_s = timeout_s
        self._own: int | None = None
        """Length of the vectors of requests that asked for no length."""
        self._forms = LearnedForms(self._endpoint.place)

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model

    @property
    def place(self) -> str:
        """The address of the endpoint."""
        return self._endpoint.place

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors; None until it is known."""
        return self._dimensions

    @property
    def most_texts(self) -> int:
        """Number of texts that the endpoint takes in one request."""
        learned = most_texts(self._forms.of(self._model).changes)
        return self._most_texts if learned is None else min(self._most_texts, learned)

    @property
    def learned(self) -> tuple[str, ...]:
        """The changes that the endpoint's refusals have taught for requests, in words."""
        return self._forms.told

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order, from one request, or from several where the endpoint takes fewer at
        once.

        Raises `ModelRefused` or `ModelUnavailable`. A text that is too long, and asked for alone, is embedded by its
        beginning.
        """
        vectors: list[list[float]] = []
        try:
            while len(vectors) < len(texts):
                vectors += await self._first_vectors(texts[len(vectors) :])
        except ModelTooLong:
            [text, *others] = texts
            if others or len(text) <= _MIN_CUT_CHARS:
                raise
            return await self.embed([text[: len(text) // 2]])
        return vectors

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _first_vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of the first texts: of as many as the endpoint takes at once."""
        form = self._forms.of(self._model)

        async def send(request: Composed) -> list[list[float]]:
            rows = max(request.texts, _MIN_ROWS)
            most_bytes, most_values = _MAX_VECTOR_BYTES * rows, _MAX_ROW_VALUES * rows
            answer = await self._endpoint.fetch("/embeddings", request.body, most_bytes, most_values)
            return await self._vectors(answer, request)

        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await form.ask(partial(self._composed, texts), send)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelUnavailable(f"no embedding from {self._endpoint.place} in time; try again later") from None

    def _composed(self, texts: Sequence[str], changes: Sequence[Change]) -> Composed:
        sent = [text.encode("utf-8", "replace").decode() for text in texts[: most_texts(changes)]]
        alone = any(change.kind == "text_alone" for change in changes)
        fields = {
            "model": to_json(self._model),
            "input": to_json(sent[0] if alone else sent),
            "encoding_format": b'"float"',
        }
        if self._asked is not None:
            fields["dimensions"] = to_json(self._asked)
        return composed(refielded(fields, changes), texts=len(sent))

    async def _vectors(self, answer: dict[str, Any], request: Composed) -> list[list[float]]:
        """Return the vectors in an answer. Other tasks have their turn after each."""
        count, given = request.texts, answer.get("data")
        if not isinstance(given, list):
            raise self._refused("no vectors")
        if len(given) != count:
            raise self._refused(f"{len(given)} vectors for {count} texts")
        rows: list[tuple[int, list[float]]] = []
        for row in given:
            try:
                rows.append((int(row["index"]), _numbers(row["embedding"])))
            except _TooLongError as error:
                raise self._refused(f"a vector of {error} numbers, where {MAX_DIMENSIONS} are the most") from None
            except (KeyError, TypeError, ValueError, OverflowError):
                raise self._refused("no vectors") from None
            if not _is_finite(rows[-1][1]):
                raise self._refused("a vector whose values are not all numbers")
            await asyncio.sleep(0)
        vectors = [vector for _, vector in sorted(rows, key=lambda row: row[0])]
        lengths = {len(vector) for vector in vectors}
        if sorted(index for index, _ in rows) != list(range(count)) or len(lengths) != 1:
            raise self._refused(f"{len(rows)} vectors for {count} texts, which are not one for each or not alike")
        length = lengths.pop()
        # Where it refuses to be asked for vectors of this length, what it has is taken: said by what was learned.
        as_asked = request.fields.get("dimensions") == to_json(self._asked)
        wanted = self._asked if as_asked else self._own
        if wanted not in (None, length):
            raise self._refused(f"vectors of length {length} instead of {wanted}")
        if wanted is None:
            self._own = length
        self._dimensions = length
        return vectors

    def _refused(self, what: str) -> ModelRefused:
        return ModelRefused(f"{self._endpoint.place}/embeddings answered {what}; check EMBED_MODEL_NAME")


class _TooLongError(ValueError):
    """A vector has more than `MAX_DIMENSIONS` numbers: the text says how many."""


def _is_finite(vector: Sequence[float]) -> bool:
    return all(map(math.isfinite, vector)) and max(map(abs, vector), default=0.0) <= MAX_ABSOLUTE_VALUE


def _numbers(vector: object) -> list[float]:
    """Return the numbers of a vector, which some endpoints send unasked as the base64 of floats of four bytes."""
    length = len(vector) * 3 // 16 if isinstance(vector, str) else len(vector) if isinstance(vector, list) else 0
    if length > MAX_DIMENSIONS:
        raise _TooLongError(length)
    if isinstance(vector, str):
        packed = b64decode(vector, validate=True)
        if len(packed) % 4:
            raise ValueError("a vector's base64 breaks off in the middle of a number")
        return list(unpack(f"<{len(packed) // 4}f", packed))
    if not isinstance(vector, list):
        raise TypeError("a vector is a list of numbers")
    return [float(value) for value in vector]
