"""The collections of the embedded store, each a shard of qdrant-edge. Synchronous: for one thread at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import qdrant_edge as edge

from pentad.shared.errors import MemoryDamagedError, MemoryOutageError, MemoryRefusedError
from pentad.shared.passing_failures import tells_passing
from pentad.shared.vectors import edge_requests as requests
from pentad.shared.vectors.edge_folder import ALIASES, EdgeFolder
from pentad.shared.vectors.edge_requests import PresentOwners
from pentad.shared.vectors.limits import MOST_TENANTS, check_lengths, check_queries, check_tenants
from pentad.shared.vectors.payload_cache import PayloadCache
from pentad.shared.vectors.points import Collection, Hit, KeptPoint, Payload, Point, PointPage, in_rank_order
from pentad.shared.vectors.selection import Selection, VectorQuery

P = ParamSpec("P")
T = TypeVar("T")

_POINTS_PER_UPSERT = 32
"""Points of one call: qdrant-edge holds Python's lock while it works, 0.1 ms for each, and everything else waits."""
_MAX_UNFLUSHED_POINTS = 4096
"""Points that are in the write-ahead log alone. When the shard is opened after a kill, they are read at 0.2 ms each;
flushing them takes a tenth of a second."""
_POINTS_PER_READ = 256
"""Points of one read that checks whether they are readable."""
_PANIC_NAME = "PanicException"
"""Name of the exception that qdrant-edge raises where its own files are inconsistent."""
_FILE_ERROR_PREFIX = "Service runtime error"
"""Beginning of qdrant-edge's errors that are about its files, not about the request."""


class EdgeShards:
    """The port `EmbeddedVectors` without async, for one process and one thread. It opens itself at the first use."""

    def __init__(self, path: Path, lock: int | None = None) -> None:
        """``lock``: see `EdgeFolder`."""
        self._folder = EdgeFolder(path, lock)
        self._shards: dict[str, edge.EdgeShard] = {}
        self._payloads: dict[str, PayloadCache] = {}
        self._owners: dict[str, PresentOwners] = {}
        self._unflushed: dict[str, int] = {}
        self._dimensions: dict[str, int | None] = {}

    def open(self) -> None:
        """Lock the folder. Raises ``MemoryTakenError`` while another process has it."""
        self._folder.open()

    def close(self) -> None:
        """Write everything to disk and release the folder."""
        for name in list(self._shards):
            self._let_go(name)
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
                self._tried(name, self._shard(name).info).points_count,
                tuple(sorted(alias for alias, meant in aliases.items() if meant == name)),
            )
            for name in self._folder.names()
        ]

    def drop(self, name: str) -> None:
        self.open()
        self._let_go(name)
        self._folder.remove(name)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        name = self._name(collection)
        check_lengths(points, self._length(name))
        self._folder.check_room()
        self._kept(name).forget(point.id for point in points)
        self._present(name).add(point.payload.owner for point in points)
        for begin in range(0, len(points), _POINTS_PER_UPSERT):
            part = points[begin : begin + _POINTS_PER_UPSERT]
            self._tried(name, self._shard(name).update, requests.upsert(part))
        self._flush_now_and_then(name, len(points))

    def search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        name = self._name(collection)
        check_queries(queries, self._length(name))
        if not any(self._sees(name, selection) for selection in {query.selection for query in queries}):
            return [[] for _ in queries]
        found = self._tried(name, self._shard(name).query_batch, requests.query_batch(queries, self._present(name)))
        scored = [requests.scores(points) for points in found]
        ids = dict.fromkeys(point for scores in scored for point in scores)
        payloads = self._kept(name).of(ids, lambda missing: self._read(name, missing))
        return [
            in_rank_order(
                Hit(point, score, payloads[point])
                for point, score in scores.items()
                if point in payloads and query.selection.means(payloads[point].owner)
            )
            for query, scores in zip(queries, scored, strict=True)
        ]

    def scroll(self, collection: str, selection: Selection, limit: int, cursor: str | None) -> PointPage:
        name = self._name(collection)
        request = edge.ScrollRequest(
            offset=cursor, limit=limit, filter=requests.selection_filter(selection), with_payload=True
        )
        records, after = self._tried(name, self._shard(name).scroll, request)
        return PointPage(requests.decoded_points(records), None if after is None else str(after))

    def get(self, collection: str, selection: Selection) -> list[KeptPoint]:
        return self.scroll(collection, selection, max(1, len(selection.ids or ())), None).points

    def count(self, collection: str, selection: Selection) -> int:
        name = self._name(collection)
        request = edge.CountRequest(exact=True, filter=requests.selection_filter(selection))
        return self._tried(name, self._shard(name).count, request)

    def tenants(self, collection: str) -> list[str]:
        request = edge.FacetRequest("tenant", limit=MOST_TENANTS + 1, exact=True)
        name = self._name(collection)
        hits = self._tried(name, self._shard(name).facet, request)
        return check_tenants(str(hit.value) for hit in hits if hit.count)  # those whose points are gone count 0

    def delete(self, collection: str, selection: Selection) -> None:
        name = self._name(collection)
        self._folder.check_room()
        self._kept(name).forget_all()
        self._tried(name, self._shard(name).update, requests.delete(selection))
        self._flush_now_and_then(name, 1)

    def parts(self) -> list[str]:
        self.open()
        return self._folder.parts()

    def read_part(self, part: str, cursor: str | None) -> str | None:
        self.open()
        if part == ALIASES:
            self._folder.aliases()
            return None
        if self._folder.lacks_dimension(part):
            raise MemoryDamagedError(f"the collection {part} of the memory does not say its dimension")
        if (dimensions := self._folder.dimensions(part)) is None:  # it was removed meanwhile
            return None
        shard = self._shard(part)
        if cursor is None:
            self._tried(part, shard.facet, edge.FacetRequest("tenant", limit=1, exact=True))
            self._tried(part, shard.query_batch, requests.probe_of_all(dimensions))
        request = edge.ScrollRequest(offset=cursor, limit=_POINTS_PER_READ, with_payload=True)
        records, after = self._tried(part, shard.scroll, request)
        bare = [str(record.id) for record in records if not record.payload]
        if bare:
            raise MemoryDamagedError(f"{len(bare)} points of the collection {part} have lost what they keep")
        return None if after is None else str(after)

    def set_aside(self, part: str) -> str:
        self.open()
        self._let_go(part)
        return self._folder.set_aside(part)

    def _name(self, collection: str) -> str:
        """Return the name that a name or an alias means; names have precedence."""
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
            except BaseException as error:
                if not _is_from_qdrant_edge(error):
                    raise
                self._folder.check_room()  # what a full disk does to it is told in many words
                kind = MemoryOutageError if tells_passing(error) else MemoryDamagedError
                raise kind(f"the collection {name} of the memory cannot be opened: {error}") from None
        return shard

    def _let_go(self, name: str) -> None:
        """Close a collection and drop what is cached of it: it is opened again at its next use."""
        shard = self._shards.pop(name, None)
        for known in (self._payloads, self._owners, self._dimensions, self._unflushed):
            known.pop(name, None)
        if shard is not None:
            try:
                shard.close()
            except BaseException as error:  # its log has what is not written down
                if not _is_from_qdrant_edge(error):
                    raise

    def _tried(self, name: str, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Call qdrant-edge, and raise our errors for its plain exceptions. The input was checked before."""
        try:
            return work(*given, **named)
        except BaseException as error:
            if not _is_from_qdrant_edge(error):
                raise
            if not isinstance(error, Exception):  # what has panicked may have left it locked
                self._let_go(name)
            self._folder.check_room()
            if _tells_damage(error):
                raise MemoryDamagedError(f"the collection {name} of the memory cannot be read: {error}") from None
            raise MemoryOutageError(f"the embedded memory of vectors fails: {error}") from None

    def _length(self, name: str) -> int | None:
        """Return the dimension of a collection, which is read from its file once."""
        if name not in self._dimensions:
            self._dimensions[name] = self._folder.dimensions(name)
        return self._dimensions[name]

    def _kept(self, name: str) -> PayloadCache:
        return self._payloads.setdefault(name, PayloadCache())

    def _present(self, name: str) -> PresentOwners:
        if name not in self._owners:
            self._owners[name] = PresentOwners(lambda field, most: self._values(name, field, most))
        return self._owners[name]

    def _sees(self, name: str, selection: Selection) -> bool:
        """Whether the owner of a selection may see any point: a new session, or a new user, often sees none."""
        seen = Selection(selection.owner, selection.whose)
        if self._present(name).meet(seen).user:
            return True
        request = edge.ScrollRequest(limit=1, filter=requests.selection_filter(seen), with_payload=False)
        records, _ = self._tried(name, self._shard(name).scroll, request)
        return bool(records)

    def _values(self, name: str, field: str, most: int) -> list[str] | None:
        try:
            hits = self._shard(name).facet(edge.FacetRequest(field, limit=most, exact=True))
        except Exception:  # without an index of the field
            return None
        return [str(hit.value) for hit in hits]

    def _read(self, name: str, ids: list[str]) -> dict[str, Payload]:
        records = self._tried(
            name, self._shard(name).retrieve, requests.point_ids(ids), with_payload=True, with_vector=False
        )
        return {point.id: point.payload for point in requests.decoded_points(records)}

    def _make(self, name: str, dimensions: int) -> None:
        place = self._folder.begin(name, dimensions)
        shard = self._tried(name, edge.EdgeShard.create, str(place), requests.config(dimensions))
        for index in requests.indexes():
            self._tried(name, shard.update, index)
        shard.close()
        self._folder.finish(name)

    def _flush_now_and_then(self, name: str, written: int) -> None:
        self._unflushed[name] = self._unflushed.get(name, 0) + written
        if self._unflushed[name] >= _MAX_UNFLUSHED_POINTS:
            self._tried(name, self._shard(name).flush)
            self._unflushed[name] = 0


def _is_from_qdrant_edge(error: BaseException) -> bool:
    """Whether qdrant-edge raised this error: its panics, which damaged files cause, are no ``Exception``."""
    return isinstance(error, Exception) or type(error).__name__ == _PANIC_NAME


def _tells_damage(error: BaseException) -> bool:
    """Whether an error is about the files on disk, not about the machine or the request."""
    return not tells_passing(error) and (
        type(error).__name__ == _PANIC_NAME or str(error).startswith(_FILE_ERROR_PREFIX)
    )


def _unknown(name: str) -> MemoryRefusedError:
    return MemoryRefusedError(f"the memory has no collection {name}: prepare it first")
