"""The port `Vectors`: stores of vectors."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery


class Vectors(Protocol):
    """Collections of points with dense and sparse vectors.

    Each method raises ``MemoryRefusedError`` for requests that can never succeed, before anything is written, and
    ``MemoryOutageError`` when the store does not answer in time. A write may have been made then; repeating it has the
    same effect. ``collection`` is a name or an alias. What a write that returned has written is found by every later
    call, also after the process was killed.
    """

    async def prepare(self, name: str, dimensions: int) -> None:
        """Make sure that the collection and its indexes exist: dense vectors of this dimension, compared by cosine.

        Refuses a collection that exists with another dimension.
        """
        ...

    async def switch(self, alias: str, name: str) -> None:
        """Point the alias to this collection, which must exist: effective at once, for all readers."""
        ...

    async def collections(self) -> list[Collection]:
        """Return all collections, in the order of their names."""
        ...

    async def drop(self, name: str) -> None:
        """Remove a collection with its points and aliases; a collection that does not exist is no error."""
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points, replacing those with the same ids: `MOST_POINTS` at once. All or none are refused."""
        ...

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """Return the nearest points of each query, the best first, equal ones in the order of their ids."""
        ...

    async def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        """Return the points whose ids the selection names and that meet it, in the order of their ids."""
        ...

    async def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None = None) -> PointPage:
        """Return a page of points in the order of their ids. A point that exists throughout is on exactly one page."""
        ...

    async def count(self, collection: str, selection: Selection) -> int:
        """Return the exact number of points that meet the selection."""
        ...

    async def tenants(self, collection: str) -> list[str]:
        """Return the tenants that have points, in order; refused where there are more than `MOST_TENANTS`."""
        ...

    async def delete(self, collection: str, selection: Selection) -> None:
        """Remove the points that meet the selection."""
        ...

    async def aclose(self) -> None:
        """Close the store; later calls raise ``MemoryOutageError``. Safe to call twice."""
        ...


@runtime_checkable
class EmbeddedVectors(Vectors, Protocol):
    """A store in a folder of ours, whose damaged parts can be found and set aside.

    Servers see to that themselves.
    """

    async def parts(self) -> list[str]:
        """Return the names of the parts that can be damaged separately: collections, and the file of aliases."""
        ...

    async def read_part(self, part: str, cursor: str | None = None) -> str | None:
        """Read the next points of a part, of all owners; at its beginning also what all searches read.

        Returns where the next ones begin, None at the end. Raises ``MemoryDamagedError`` for what cannot be read.
        """
        ...

    async def set_aside(self, part: str) -> str:
        """Rename a part that cannot be read; return its new name. The part no longer exists then.

        Raises ``MemoryDamagedError`` while one of the same name that was set aside earlier is there.
        """
        ...


class Removals(Protocol):
    """Receives an announcement before each removal, so that unexplained losses are noticed. Raises ``OutageError``."""

    async def removing(self, collection: str, number: int) -> None:
        """Announce that at most ``number`` points of a collection are about to be removed."""
        ...
