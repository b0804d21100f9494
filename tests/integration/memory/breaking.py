"""A store that dies at one of its writes."""

from collections.abc import Sequence
from typing import Any

from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Point
from tests.integration.memory.dying import Dying


class Breaking(Dying, EdgeVectors):
    """Vectors that die."""

    async def prepare(self, name: str, dimensions: int) -> None:
        await self.at(lambda: super(Breaking, self).prepare(name, dimensions))

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        await self.at(lambda: super(Breaking, self).upsert(collection, points))

    async def delete(self, collection: str, selection: Any) -> None:
        await self.at(lambda: super(Breaking, self).delete(collection, selection))
