"""The collections of the embedded store, each a shard of qdrant-edge. Synchronous: for one thread at a time."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import qdrant_edge as edge

from pentad.shared.errors import MemoryDamagedError, MemoryOutageError, MemoryRefusedError
from pentad.shared.passing_failures import tells_passing
from pentad.shared.vectors import edge_words as words
from pentad.shared.vectors.edge_folder import EdgeFolder
from pentad.shared.vectors.edge_owners import PresentOwners
from pentad.shared.vectors.kept_payloads import KeptPayloads
from pentad.shared.vectors.limits import MOST_TENANTS, check_lengths, check_queries, check_tenants
from pentad.shared.vectors.ordering import ordered
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Payload, Point, PointPage
from pentad.shared.vectors.selection import Selection, VectorQuery

P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 32
"""Points of one call: qdrant-edge holds Python's lock while it works, 0.1 ms for each, and everything else waits."""
_UNFLUSHED = 4096
"""Points that are written to the log alone; at most so many are read from it, at 0.2 ms each, when it is opened after a
kill. To flush them takes a tenth of a second."""


class EdgeShards:
    """What `Vectors` promises, within one process and one thread. Opens itself at the first use."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """``lock``: see `EdgeFolder`."""
        self._folder = EdgeFolder(path, lock)
        self._shards: dict[str, edge.EdgeShard] = {}
        self._payloads: dict[str, KeptPayloads] = {}
        self._owners: dict[str, PresentOwners] = {}
        self._unflushed: dict[str, int] = {}
        self._dimensions: dict[str, int | None] = {}

    def open(self) -> None:
        """Take the folder. Raises ``MemoryTakenError`` while another process has it."""
        self._folder.open()

    def close(self) -> None:
        """Write everything down and let the folder go."""
        for shard in self._shards.values():
            with suppress(Exception):  # its log has what is not written down
                shard.close()
        self._shards.clear()
        self._payloads.clear()
        self._owners.clear()
        self._dimensions.clear()
        self._folder.close()

    def prepare(self, name: str, dimensions: int) -> None:
        self.open()
        there = self._folder.dimensions(name)
        if there not in (None, dimensions):
            raise MemoryRefusedError(f"the collection {name} has vectors of {there} numbers, not {dimensions}")
        self._folder.check_room()
        if there is None:
            self._make(name, dimensions)

    def switch(self, alias: str, name: str) -> None:
        self.open()
        if self._folder.dimensions(name) is None:
            raise _unknown(name)
        if self._folder.dimensions(alias) is not None:
            raise MemoryRefusedError(f"{alias} is the name of a collection, and cannot be an alias")
        self._folder.switch(alias, name)

    def collections(self) -> list[Collection]:
        self.open()
        aliases = self._folder.aliases()
        return [
            Collection(
                name,
                self._folder.dimensions(name) or 0,
                _tried(self._shard(name).info).points_count,
                tuple(sorted(alias for alias, meant in aliases.items() if meant == name)),
            )
            for name in self._folder.names()
        ]

    def drop(self, name: str) -> None:
        self.open()
        shard = self._shards.pop(name, None)
        self._payloads.pop(name, None)
        self._owners.pop(name, None)
        self._dimensions.pop(name, None)
        if shard is not None:
            shard.close()
        self._folder.remove(name)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        name = self._name(collection)
        check_lengths(points, self._length(name))
        self._folder.check_room()
        self._kept(name).forget(point.id for point in points)
        self._present(name).add(point.payload.owner for point in points)
        for begin in range(0, len(points), _AT_ONCE):
            part = points[begin : begin + _AT_ONCE]
            _tried(self._shard(name).update, words.upsert(part))
        self._flush_now_and_then(name, len(points))

    def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        name = self._name(collection)
        check_queries(queries, self._length(name))
        if not queries:
            return []
        found = _tried(self._shard(name).query_batch, words.batch(queries, self._present(name)))
        scored = [words.scores(points) for points in found]
        ids = dict.fromkeys(point for scores in scored for point in scores)
        payloads = self._kept(name).of(ids, lambda missing: self._read(name, missing))
        return [
            ordered(
                Hit(point, score, payloads[point])
                for point, score in scores.items()
                if point in payloads and query.selection.means(payloads[point].owner)
            )
            for query, scores in zip(queries, scored, strict=True)
        ]

    def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None) -> PointPage:
        name = self._name(collection)
        request = edge.ScrollRequest(offset=cursor, limit=limit, filter=words.where(selection), with_payload=True)
        records, after = _tried(self._shard(name).scroll, request)
        return PointPage(words.kept(records), None if after is None else str(after))

    def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        return self.scroll(collection, selection, max(1, len(selection.ids or ())), None).points

    def count(self, collection: str, selection: Selection) -> int:
        name = self._name(collection)
        request = edge.CountRequest(exact=True, filter=words.where(selection))
        return _tried(self._shard(name).count, request)

    def tenants(self, collection: str) -> list[str]:
        request = edge.FacetRequest("tenant", limit=MOST_TENANTS + 1, exact=True)
        hits = _tried(self._shard(self._name(collection)).facet, request)
        return check_tenants(str(hit.value) for hit in hits if hit.count)  # those whose points are gone count 0

    def delete(self, collection: str, selection: Selection) -> None:
        name = self._name(collection)
        self._folder.check_room()
        self._kept(name).forget_all()
        _tried(self._shard(name).update, words.delete(selection))
        self._flush_now_and_then(name, 1)

    def _name(self, collection: str) -> str:
        """What a name or an alias means; a name goes before."""
        self.open()
        if collection in self._shards or self._folder.dimensions(collection) is not None:
            return collection
        name = self._folder.aliases().get(collection)
        if name is None or self._folder.dimensions(name) is None:
            raise _unknown(collection)
        return name

    def _shard(self, name: str) -> edge.EdgeShard:
        shard = self._shards.get(name)
        if shard is None:
            try:
                shard = self._shards[name] = edge.EdgeShard.load(str(self._folder.shard(name)))
            except Exception as error:
                self._folder.check_room()  # what a full disk does to it is told in many words
                kind = MemoryOutageError if tells_passing(error) else MemoryDamagedError
                raise kind(f"the collection {name} of the memory cannot be opened: {error}") from None
        return shard

    def _length(self, name: str) -> int | None:
        """Of the collection's dense vectors: read from its file once."""
        if name not in self._dimensions:
            self._dimensions[name] = self._folder.dimensions(name)
        return self._dimensions[name]

    def _kept(self, name: str) -> KeptPayloads:
        return self._payloads.setdefault(name, KeptPayloads())

    def _present(self, name: str) -> PresentOwners:
        if name not in self._owners:
            self._owners[name] = PresentOwners(lambda field, most: self._values(name, field, most))
        return self._owners[name]

    def _values(self, name: str, field: str, most: int) -> list[str] | None:
        try:
            hits = self._shard(name).facet(edge.FacetRequest(field, limit=most, exact=True))
        except Exception:  # without an index of the field
            return None
        return [str(hit.value) for hit in hits]

    def _read(self, name: str, ids: list[str]) -> dict[str, Payload]:
        records = _tried(self._shard(name).retrieve, words.point_ids(ids), with_payload=True, with_vector=False)
        return {point.id: point.payload for point in words.kept(records)}

    def _make(self, name: str, dimensions: int) -> None:
        place = self._folder.begin(name, dimensions)
        shard = _tried(edge.EdgeShard.create, str(place), words.config(dimensions))
        for index in words.indexes():
            _tried(shard.update, index)
        shard.close()
        self._folder.finish(name)

    def _flush_now_and_then(self, name: str, written: int) -> None:
        self._unflushed[name] = self._unflushed.get(name, 0) + written
        if self._unflushed[name] >= _UNFLUSHED:
            _tried(self._shard(name).flush)
            self._unflushed[name] = 0


def _tried(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Do it; qdrant-edge raises plain exceptions, and what may be wrong with the input was looked at before."""
    try:
        return work(*given, **named)
    except Exception as error:
        raise MemoryOutageError(f"the embedded memory of vectors fails: {error}") from None


def _unknown(name: str) -> MemoryRefusedError:
    return MemoryRefusedError(f"the memory has no collection {name}: prepare it first")
