"""Clients of the stores that an archiver has open: adapters of the ports `Vectors` and `Graph`, called over Redis."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from redis.exceptions import RedisError

from pentad.contracts.commands import MemoryReply, MemoryRequest
from pentad.contracts.streams import MEMORY, MEMORY_REPLY
from pentad.shared import metrics
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, OutageError
from pentad.shared.event_loop import CallsByKey, GroupedCalls
from pentad.shared.graph.graph_limits import check_found, check_ids
from pentad.shared.graph.knowledge import BareEdge, EdgeType, MemoryEdge, MemoryNode, Tally, WalkedEdge
from pentad.shared.graph.merging import without_supports
from pentad.shared.memory.ranking import EmbeddedQuestion, MemoryHit
from pentad.shared.memory.remote_calls import (
    GRAPH_CALLS,
    GRAPH_PREFIX,
    MOST_REPLY_BYTES,
    MOST_REQUEST_BYTES,
    POINTS_AT_ONCE,
    QUESTIONS_AT_ONCE,
    VECTOR_CALLS,
    FoundHits,
    MemoryCall,
    unpacked,
)
from pentad.shared.owners import Owner
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store
from pentad.shared.vectors.checked_vectors import CheckedVectors
from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery
from pentad.shared.work.replies import Replies

TIMEOUT_S = 2.0
_MAX_PENDING_CALLS = 256
"""Calls of one process and port that may wait for an answer."""
_SHARD = 0
"""Shard of all calls: there is one memory, so they go through the first shard."""


class ArchiverCalls:
    """Makes the calls of one port. ``timeout_s`` bounds each; ``instead``: the setting that names a server."""

    def __init__(self, store: Store, calls: Mapping[str, MemoryCall], instead: str, timeout_s: float) -> None:
        self._store, self._calls, self._instead, self._timeout_s = store, calls, instead, timeout_s
        self._replies: Replies[MemoryReply] = Replies(store, MEMORY_REPLY, _SHARD, _read, _unreachable)
        self._closed = False

    async def aclose(self) -> None:
        """Close the connection; who waits for an answer gets ``MemoryOutageError``."""
        self._closed = True
        await self._replies.aclose()

    async def make(self, call: str, *args: Any) -> Any:
        """Make a call and return its result. Raises ``MemoryOutageError`` and ``MemoryRefusedError``."""
        if self._closed:
            raise MemoryOutageError("the connection to the archiver's memory is closed")
        if self._replies.waiting >= _MAX_PENDING_CALLS:
            raise MemoryOutageError(f"{_MAX_PENDING_CALLS} calls wait for the archiver's memory: try again later")
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                reply = await self._answer(call, args)
        except TimeoutError:
            if not limit.expired():
                raise
            raise MemoryOutageError(
                f"no archiver answered for the memory in {self._timeout_s:g} s; "
                f"see that one runs, or set {self._instead}"
            ) from None
        except (OutageError, RedisError) as error:
            raise MemoryOutageError(f"the archiver's memory cannot be asked: {error}") from error
        return self._result(call, reply)

    async def _answer(self, call: str, args: Sequence[Any]) -> MemoryReply:
        request = random_hex(32)
        at = await self._store.now()
        key, answer = self._replies.expect(request)
        try:
            asked = self._request(call, args, request_id=request, at=at, reply_to=key)
            sending = asyncio.ensure_future(self._store.call("XADD", MEMORY.key(_SHARD), "*", "data", asked))
            try:
                await asyncio.shield(sending)
                metrics.published.labels(MEMORY.name, MemoryRequest.__name__).inc()
                return await answer
            except BaseException:
                sending.add_done_callback(self._take_back)
                raise
        finally:
            self._replies.forget(request)

    def _request(self, call: str, args: Sequence[Any], **about: Any) -> bytes:
        wait_ms = round(self._timeout_s * 1000)
        try:
            given = self._calls[call].given.dump_python(tuple(args), mode="json")
            asked = MemoryRequest(**about, wait_ms=wait_ms, call=call, args=given).to_json()
        except PydanticSerializationError as error:
            raise MemoryRefusedError(f"a call of {call} cannot be written as JSON in UTF-8: {error}") from None
        if len(asked) > MOST_REQUEST_BYTES:
            raise MemoryRefusedError(f"a call of {len(asked)} bytes: {MOST_REQUEST_BYTES} at most; ask for less")
        return asked

    def _take_back(self, sent: "asyncio.Future[bytes]") -> None:
        if not sent.cancelled() and sent.exception() is None:
            self._store.send("XDEL", MEMORY.key(_SHARD), sent.result())

    def _result(self, call: str, reply: MemoryReply) -> Any:
        if reply.error is not None:
            raise (MemoryRefusedError if reply.refused else MemoryOutageError)(reply.error)
        try:
            return self._calls[call].gives.validate_python(reply.result)
        except ValidationError:
            raise MemoryOutageError(
                f"the archiver answered {call} with what is no answer to it: is it of another version?"
            ) from None


def _read(data: bytes) -> tuple[str, MemoryReply] | None:
    if len(data) > MOST_REPLY_BYTES:
        return None
    try:
        reply = MemoryReply.model_validate_json(data)
    except ValidationError:
        return None
    return reply.request_id, reply


def _unreachable(why: str) -> MemoryOutageError:
    return MemoryOutageError(f"the archiver's memory cannot be heard: {why}")


class ArchiverVectors(CheckedVectors):
    """The port `Vectors`. ``timeout_s`` bounds a call; a call that ends without an answer is taken back."""

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._calls = ArchiverCalls(store, VECTOR_CALLS, "QDRANT_URL", timeout_s)
        self._ranked: CallsByKey[tuple[str, str], EmbeddedQuestion, list[MemoryHit]] = CallsByKey(self._questions)
        """Questions by collection and tenant: those that come while some are answered are one request."""

    async def aclose(self) -> None:
        """Close the connection; who waits for an answer gets ``MemoryOutageError``."""
        await self._calls.aclose()

    async def rank(self, collection: str, asked: EmbeddedQuestion) -> list[MemoryHit]:
        """See `RankingVectors`."""
        check_name(collection)
        return await self._ranked.call((collection, asked.question.owner.tenant), asked)

    def _questions(self, about: tuple[str, str]) -> GroupedCalls[EmbeddedQuestion, list[MemoryHit]]:
        collection, _ = about
        return GroupedCalls(partial(self._rank_each, collection), QUESTIONS_AT_ONCE, refusal=MemoryRefusedError)

    async def _rank_each(self, collection: str, asked: Sequence[EmbeddedQuestion]) -> list[list[MemoryHit]]:
        if len(asked) == 1:  # which archivers of earlier versions know, too: of several they refuse all
            return [await self._call("rank", collection, asked[0])]
        ranked: list[list[MemoryHit]] = await self._call("rank_each", collection, list(asked))
        if len(ranked) != len(asked):
            raise MemoryOutageError(f"the archiver answered {len(ranked)} of {len(asked)} questions: try again later")
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


_NODES_PER_CALL = 25
"""Nodes of one call: each may rest on hundreds of statements, and an answer is read in an event loop."""
_MAX_FALLBACK_EDGES = 2_000
"""Edges that an archiver of an earlier version is asked for in place of `between`: of more, the heaviest."""


class ArchiverGraph:
    """The port `Graph`. ``timeout_s`` bounds a call; arguments are checked where the graph is."""

    def __init__(self, store: Store, timeout_s: float = TIMEOUT_S) -> None:
        self._calls = ArchiverCalls(store, GRAPH_CALLS, "NEO4J_URI", timeout_s)

    async def prepare(self) -> None:
        await self._call("prepare")

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        await self._call("upsert_nodes", list(nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        await self._call("upsert_edges", list(edges))

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        check_ids(ids)
        wanted, found = list(dict.fromkeys(ids)), list[MemoryNode]()
        for begin in range(0, len(wanted), _NODES_PER_CALL):
            found += await self._call("nodes", owner, wanted[begin : begin + _NODES_PER_CALL])
        return sorted(found, key=lambda node: node.id)

    async def edges(self, owner: Owner, ids: Sequence[str], limit: int) -> list[MemoryEdge]:
        found: list[MemoryEdge] = await self._call("edges", owner, list(ids), limit)
        return found

    async def links(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[WalkedEdge]:
        found: list[WalkedEdge] = await self._call("links", owner, list(ids), limit, list(types), as_of)
        return found

    async def between(
        self,
        owner: Owner,
        ids: Sequence[str],
        limit: int,
        types: Sequence[EdgeType] = (),
        as_of: int | None = None,
    ) -> list[BareEdge]:
        try:
            found: list[BareEdge] = await self._call("between", owner, list(ids), limit, list(types), as_of)
        except MemoryRefusedError:  # an archiver of an earlier version refuses what it does not know
            check_found(limit)
            edges = await self.edges(owner, ids, _MAX_FALLBACK_EDGES)
            return [without_supports(edge) for edge in edges if _is_between(edge, ids, types, as_of)][:limit]
        return found

    async def named(self, owner: Owner, names: Sequence[str]) -> list[MemoryNode]:
        found: list[MemoryNode] = await self._call("named", owner, list(names))
        return found

    async def end(self, owner: Owner, ids: Sequence[str], at: int) -> None:
        await self._call("end", owner, list(ids), at)

    async def remove(self, owner: Owner, ids: Sequence[str]) -> None:
        await self._call("remove", owner, list(ids))

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        await self._call("retain", tenant, task, list(anchors))

    async def forget_task(self, tenant: str, task: str) -> None:
        await self._call("forget_task", tenant, task)

    async def forget_user(self, tenant: str, user: str) -> None:
        await self._call("forget_user", tenant, user)

    async def forget_tenant(self, tenant: str) -> None:
        await self._call("forget_tenant", tenant)

    async def tally(self, tenant: str) -> Tally:
        found: Tally = await self._call("tally", tenant)
        return found

    async def node_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryNode]:
        found: list[MemoryNode] = await self._call("node_page", tenant, limit, after)
        return found

    async def edge_page(self, tenant: str, limit: int, after: str = "") -> list[MemoryEdge]:
        found: list[MemoryEdge] = await self._call("edge_page", tenant, limit, after)
        return found

    async def aclose(self) -> None:
        """Close the connection."""
        await self._calls.aclose()

    async def _call(self, call: str, *args: Any) -> Any:
        return await self._calls.make(f"{GRAPH_PREFIX}{call}", *args)


def _is_between(edge: MemoryEdge, ids: Sequence[str], types: Sequence[EdgeType], as_of: int | None) -> bool:
    begin, end = edge.true_from or 0, edge.true_until
    then = as_of is None or (begin <= as_of and (end is None or as_of < end))
    return edge.source in ids and edge.target in ids and (not types or edge.type in types) and then
