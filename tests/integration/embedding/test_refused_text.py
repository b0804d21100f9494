"""One caller's text that the model refuses is that caller's error alone, although many share a request."""

import asyncio
from collections.abc import Sequence

from pentad.services.embedding.handlers import Embedding
from pentad.shared.models.ports import ModelRefused
from pentad.shared.store.store import Store


class Picky:
    """The port `EmbeddingModel`, refusing whole requests for one text in them."""

    name = "picky"
    place = "http://127.0.0.1:1/v1"
    dimensions = 1
    most_texts = 64

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append(len(texts))
        if "refused" in texts:
            raise ModelRefused("one of the inputs is too long")
        return [[float(len(text))] for text in texts]

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_a_refused_text_takes_no_other_callers_vectors_with_it(store: Store) -> None:
    model = Picky()
    embedding = Embedding(store, model)
    good = [["a", "bb"], ["ccc"], ["dddd", "a"]]
    asked = (embedding.embed(0, "acme", "anna", texts) for texts in (*good, ["refused"]))
    *vectors, refusal = await asyncio.gather(*asked, return_exceptions=True)
    assert vectors == [[[float(len(text))] for text in texts] for texts in good]
    assert isinstance(refusal, ModelRefused)
    assert model.asked[0] == 5
