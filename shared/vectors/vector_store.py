"""The port of the stores of vectors."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery


class Vectors(Protocol):
    """Collections of points with dense and sparse vectors.

    Each method raises ``MemoryRefusedError`` for what can never be done, before anything is written, and
    ``MemoryOutageError`` when the store does not do it in time; a write may have been made then, and is made again with
    the same effect. ``collection`` is a name or an alias. What a write that returned has written is found by whatever
    is asked next, also after the process was killed.
    """

    async def prepare(self, name: str, dimensions: int) -> None:
        """Make sure that the collection and its indexes are there: dense vectors of this dimension, compared by cosine.

        Refuses a collection that is there with another dimension.
        """
        ...

    async def switch(self, alias: str, name: str) -> None:
        """Let the alias mean this collection, which is there: at once, for whoever asks next."""
        ...

    async def collections(self) -> list[Collection]:
        """All of them, in the order of their names."""
        ...

    async def drop(self, name: str) -> None:
        """Remove a collection with its points and aliases; one that is not there is removed already."""
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write points, replacing those with the same ids: `MOST_POINTS` at once. All or none are refused."""
        ...

    async def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        """The nearest points of each query, the best first, equal ones in the order of their ids."""
        ...

    async def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        """Those of the ids that the selection names which are there and meet it, in the order of their ids."""
        ...

    async def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None = None) -> PointPage:
        """A page of points in the order of their ids. A point that is there all the while is on exactly one page."""
        ...

    async def count(self, collection: str, selection: Selection) -> int:
        """How many points meet it, exactly."""
        ...

    async def tenants(self, collection: str) -> list[str]:
        """Whose points there are, in order; refused where they are more than `MOST_TENANTS`."""
        ...

    async def delete(self, collection: str, selection: Selection) -> None:
        """Remove the points that meet it."""
        ...

    async def aclose(self) -> None:
        """Close it; what is asked afterwards raises ``MemoryOutageError``. Safe to call twice."""
        ...


@runtime_checkable
class EmbeddedVectors(Vectors, Protocol):
    """A store in a folder of ours: what is damaged of it can be found and set aside.

    A server sees to that itself.
    """

    async def parts(self) -> list[str]:
        """The names of what can be damaged by itself: the collections, and the file of the aliases."""
        ...

    async def read_part(self, part: str, cursor: str | None = None) -> str | None:
        """Read the next points of a part, whoever's they are; at its beginning also what all searches read.

        Returns where the next ones begin, None at the end. Raises ``MemoryDamagedError`` for what cannot be read.
        """
        ...

    async def set_aside(self, part: str) -> str:
        """Rename a part that cannot be read; returns what it is called now. It is not there any more then.

        Raises ``MemoryDamagedError`` while one of the same name that was set aside earlier is there.
        """
        ...


class Removals(Protocol):
    """Is told ahead of each removal, so that what is missing without one is noticed. Raises ``OutageError``."""

    async def removing(self, collection: str, number: int) -> None:
        """So many points of a collection, at most, are about to be removed."""
        ...
