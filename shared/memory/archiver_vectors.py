"""The store of vectors that an archiver has open, asked over Redis: the third adapter of the port `Vectors`."""

from collections.abc import Sequence
from typing import Any

from pentad.shared.errors import MemoryOutageError
from pentad.shared.memory.archiver_calls import TIMEOUT_S, ArchiverCalls
from pentad.shared.memory.ranking import MemoryRanking, RankedMemories
from pentad.shared.memory.vector_calls import CALLS, POINTS_AT_ONCE, FoundHits, unpacked
from pentad.shared.store.store import Store
from pentad.shared.vectors.checked import CheckedVectors
from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery


class ArchiverVectors(CheckedVectors):
    """See `Vectors`. ``timeout_s`` bounds a call; one that ends without an answer is taken back."""

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._calls = ArchiverCalls(store, CALLS, "QDRANT_URL", timeout_s)

    async def aclose(self) -> None:
        """Close the connection; who waits for an answer gets ``MemoryOutageError``."""
        await self._calls.aclose()

    async def rank(self, collection: str, asked: MemoryRanking) -> RankedMemories:
        """See `RankingVectors`."""
        check_name(collection)
        ranked: RankedMemories = await self._call("rank", collection, asked)
        return ranked

    async def _upsert(self, collection: str, points: Sequence[Point]) -> None:
        for begin in range(0, len(points), POINTS_AT_ONCE):
            await self._call("upsert", collection, list(points[begin : begin + POINTS_AT_ONCE]))

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        found: FoundHits = await self._call("search", collection, list(queries))
        try:
            return unpacked(found)
        except KeyError as missing:
            raise MemoryOutageError(f"the archiver told nothing of the point {missing}: try again later") from None

    async def _call(self, call: str, *args: Any) -> Any:
        return await self._calls.make(call, *args)
