"""Checks that all stores of vectors make before a call, in one place: the bounds of `limits`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pentad.shared.vectors.limits import (
    check_dimensions,
    check_id,
    check_limit,
    check_name,
    check_points,
    check_queries,
    check_selected_ids,
    check_selection,
)
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery
from pentad.shared.vectors.vector_store import Removals


class CheckedVectors(ABC):
    """The port `Vectors` for an adapter that carries out calls by name: arguments are checked here first."""

    removals: Removals | None = None
    """Receiver of an announcement before each removal; None: removals are not announced."""

    @abstractmethod
    async def _call(self, call: str, *args: Any) -> Any:
        """Carry out a call of the port. ``call`` is the method's name; the arguments are checked."""

    async def prepare(self, name: str, dimensions: int) -> None:
        check_name(name)
        check_dimensions(dimensions)
        await self._call("prepare", name, dimensions)

    async def switch(self, alias: str, name: str) -> None:
        check_name(alias)
        check_name(name)
        await self._call("switch", alias, name)

    async def collections(self) -> list[Collection]:
        found: list[Collection] = await self._call("collections")
        return found

    async def drop(self, name: str) -> None:
        check_name(name)
        if self.removals is not None:
            points = sum(each.points for each in await self.collections() if each.name == name)
            await self.removals.removing(name, points)
        await self._call("drop", name)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        check_name(collection)
        check_points(points)
        await self._upsert(collection, points)

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        check_name(collection)
        check_queries(queries)
        return await self._search(collection, queries)

    async def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        check_name(collection)
        check_selected_ids(selection)
        found: list[KeptPoint] = await self._call("get", collection, selection)
        return found

    async def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None = None) -> PointPage:
        check_name(collection)
        check_selection(selection)
        check_limit(limit)
        if cursor is not None:
            check_id(cursor)
        page: PointPage = await self._call("scroll", collection, selection, limit, cursor)
        return page

    async def count(self, collection: str, selection: Selection) -> int:
        check_name(collection)
        check_selection(selection)
        counted: int = await self._call("count", collection, selection)
        return counted

    async def tenants(self, collection: str) -> list[str]:
        check_name(collection)
        found: list[str] = await self._call("tenants", collection)
        return found

    async def delete(self, collection: str, selection: Selection) -> None:
        check_name(collection)
        check_selection(selection)
        if self.removals is not None and (number := await self._call("count", collection, selection)):
            await self.removals.removing(collection, number)
        await self._call("delete", collection, selection)

    async def _upsert(self, collection: str, points: Sequence[Point]) -> None:
        await self._call("upsert", collection, points)

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        found: list[list[Hit]] = await self._call("search", collection, queries)
        return found
