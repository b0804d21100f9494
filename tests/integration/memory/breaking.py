"""A store that dies at one of its writes."""

from collections.abc import Callable, Sequence
from typing import Any

from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.points import Point


class Breaking(EdgeVectors):
    """Dies at its n-th write: before it, or after it and before anybody is told."""

    left = 0
    after = False

    async def _at(self, write: Callable[[], Any]) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise KeyboardInterrupt
        await write()
        if self.left == 0:
            raise KeyboardInterrupt

    async def prepare(self, name: str, dimensions: int) -> None:
        await self._at(lambda: super(Breaking, self).prepare(name, dimensions))

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        await self._at(lambda: super(Breaking, self).upsert(collection, points))

    async def delete(self, collection: str, selection: Any) -> None:
        await self._at(lambda: super(Breaking, self).delete(collection, selection))
