"""Answers calls of the embedded memory, vectors and graph, for services without a store of their own."""

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import MemoryReply, MemoryRequest
from pentad.contracts.ids import milliseconds
from pentad.contracts.streams import MEMORY_REPLY, split_key
from pentad.shared import metrics
from pentad.shared.errors import MemoryDamagedError, MemoryRefusedError, PentadError, PoisonError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.memory.memory_counts import GRAPH, VECTORS
from pentad.shared.memory.remote_calls import (
    GRAPH_CALLS,
    GRAPH_PREFIX,
    MOST_REPLY_BYTES,
    MOST_REQUEST_BYTES,
    QUESTIONS_AT_ONCE,
    VECTOR_CALLS,
    packed,
    tenant_of,
)
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry
from pentad.shared.work.tenant_turns import TenantTurns

_REPLY_TTL_S = 60
_CALLS_PER_TENANT, _CALLS_AT_ONCE = 8, 16
"""Calls of one tenant, and of all, that run at once; others that were read wait for their turn."""
Stumbled = Callable[[str, MemoryDamagedError], Awaitable[None]]


class MemoryServer:
    """Answers each request at least once; errors are sent to the caller.

    A few requests of one tenant run at once; its others wait behind those of other tenants.
    """

    def __init__(
        self, store: Store, vectors: Vectors | None, graph: Graph | None = None, stumbled: Stumbled | None = None
    ) -> None:
        """Make the server. A store on a server is None. ``stumbled`` is told which store (`VECTORS`, `GRAPH`) is
        damaged."""
        self._store, self._vectors, self._graph, self._stumbled = store, vectors, graph, stumbled
        self._turns = TenantTurns(_CALLS_PER_TENANT, _CALLS_AT_ONCE)

    async def handle(self, entry: Entry) -> None:
        """Answer a request, unless nobody waits for the answer any more."""
        if len(entry.data) > MOST_REQUEST_BYTES:
            raise PoisonError(f"a request of {len(entry.data)} bytes: {MOST_REQUEST_BYTES} at most")
        request = entry.parse(MemoryRequest)
        place = split_key(entry.stream)
        if not request.reply_to.startswith(MEMORY_REPLY.key(place[0] if place else 0, reply="")):
            raise PoisonError(f"reply_to must be a reply stream of this shard, not {request.reply_to!r}")
        async with self._turns.turn(_tenant_of_request(request)):
            if milliseconds(request.at) + request.wait_ms <= await self._store.now_ms():
                return
            reply = await self._answer(request)
        await self._store.run("reply", [request.reply_to], [reply, _REPLY_TTL_S])
        metrics.published.labels(MEMORY_REPLY.name, MemoryReply.__name__).inc()

    async def _answer(self, request: MemoryRequest) -> bytes:
        try:
            result = await self._done(request)
            reply = MemoryReply(request_id=request.request_id, result=result).to_json()
            if len(reply) > MOST_REPLY_BYTES:
                raise MemoryRefusedError(f"an answer of {len(reply)} bytes: {MOST_REPLY_BYTES} at most; ask for less")
        except PentadError as error:
            if isinstance(error, MemoryDamagedError) and self._stumbled is not None:
                await self._stumbled(GRAPH if request.call.startswith(GRAPH_PREFIX) else VECTORS, error)
            refused = isinstance(error, MemoryRefusedError)
            return MemoryReply(request_id=request.request_id, error=str(error), refused=refused).to_json()
        return reply

    async def _done(self, request: MemoryRequest) -> Any:
        name = request.call.removeprefix(GRAPH_PREFIX)
        of_graph = name != request.call
        port = self._graph if of_graph else self._vectors
        call = (GRAPH_CALLS if of_graph else VECTOR_CALLS).get(request.call)
        if call is None or not hasattr(port, name):
            raise MemoryRefusedError(f"the memory has no call {request.call!r}: is this archiver of an older version?")
        if request.call == "rank_each":
            _check_questions(request.args)  # before so many are parsed
        try:
            args = call.given.validate_python(request.args)
        except ValidationError as error:
            raise MemoryRefusedError(f"this is no call of {request.call}: {error.error_count()} mistakes") from None
        result = await getattr(port, name)(*args)
        return call.gives.dump_python(packed(result) if request.call == "search" else result, mode="json")


def _check_questions(args: list[Any]) -> None:
    """Refuse more questions than go over the bus at once. Raises ``MemoryRefusedError``."""
    number = max((len(each) for each in args if isinstance(each, list)), default=0)
    if number > QUESTIONS_AT_ONCE:
        raise MemoryRefusedError(f"{number} questions at once: {QUESTIONS_AT_ONCE} at most; ask the others later")


def _tenant_of_request(request: MemoryRequest) -> str:
    """Return the tenant of a request: calls of the graph about a whole tenant name it first; '': no tenant's."""
    first = request.args[0] if request.args else None
    if request.call.startswith(GRAPH_PREFIX) and isinstance(first, str):
        return first
    return tenant_of(request.args)
