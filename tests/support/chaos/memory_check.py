"""The memory after a chaos run, searched through REST like a user, and read like an operator's export."""

import asyncio
from collections.abc import Sequence
from typing import Any

from httpx2 import AsyncClient, HTTPError
from redis.asyncio import Redis

from pentad.contracts.streams import ARCHIVE, ERASE, EXTRACT, LEARN, REMEMBER
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode
from pentad.shared.graph.merging import edge_key
from pentad.shared.keys import timers
from pentad.shared.memory.archiver_client import ArchiverGraph, ArchiverVectors
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from tests.support.chaos.facts import Fact, Place, Traced, still_known, twice_in_graph, twice_in_memory
from tests.support.remembering import COLLECTION
from tests.support.waiting import PATIENCE_S

_STRANGER = "somebody-else"
_HITS, _AT_ONCE, _PAGE = 20, 4, 500
_WORK = (REMEMBER, LEARN, ARCHIVE, EXTRACT, ERASE)


class NotNowError(Exception):
    """The memory does not answer yet."""


class Finder:
    """Searches at one gateway. Raises ``NotNowError`` if there is no answer."""

    def __init__(self, gateway: str) -> None:
        self._client = AsyncClient(base_url=gateway, timeout=PATIENCE_S, trust_env=False)
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> "Finder":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def traced(self, facts: Sequence[Fact]) -> list[Traced]:
        """Return the search results for each fact."""
        return list(await asyncio.gather(*map(self._traced, facts)))

    async def _traced(self, fact: Fact) -> Traced:
        async with self._room:
            said, known = [await self._places(fact, kind) for kind in ("episodic", "semantic")]
            others = await self._hits(fact.sentence, {"user_id": _STRANGER})
        return Traced(
            fact, tuple(said), tuple(known), tuple(hit["id"] for hit in others if fact.sentence in hit["content"])
        )

    async def _places(self, fact: Fact, kind: str) -> Sequence[Place]:
        """Return the places of a fact in one kind of memory."""
        whose = {"user_id": fact.user, "session_id": fact.session}
        named = {name: value for name, value in whose.items() if value is not None}
        hits = await self._hits(fact.sentence, {**named, "kind": kind})
        same = [hit for hit in hits if hit["content"] == fact.sentence]
        anchors = [(hit["id"], anchor) for hit in same for anchor in hit.get("anchors") or [hit["anchor"]]]
        return tuple([Place(found, anchor, await self._opened(anchor)) for found, anchor in anchors])

    async def _hits(self, question: str, more: dict[str, str]) -> list[dict[str, Any]]:
        params = {"q": question, "limit": str(_HITS)} | more
        found = await self._asked("GET", "/v1/memory/search", params=params)
        hits: list[dict[str, Any]] = found["hits"]
        return hits

    async def _opened(self, anchor: str) -> str:
        found = await self._asked("POST", "/v1/memory/expand", json={"anchor": anchor})
        return str(found["focus"]["content"]) if found else ""

    async def _asked(self, method: str, path: str, **more: Any) -> Any:
        """Return the answer of the gateway; None for 404."""
        try:
            response = await self._client.request(method, path, **more)
        except HTTPError as error:
            raise NotNowError(f"{path}: {error!r}") from error
        if response.status_code not in (200, 404):
            raise NotNowError(f"{path}: {response.status_code} {response.text}")
        return response.json() if response.status_code == 200 else None


async def at_work(redis: Redis, shards: int, due: Sequence[bytes]) -> list[str]:
    """Return the work that the memory still has to do. ``due``: kinds of timers that must have fired."""
    left = []
    for shard in range(shards):
        members: Any = await redis.zrange(timers(shard), 0, -1)
        left += [member.decode() for member in members if member.split()[0] in due]
        for key in (stream.key(shard) for stream in _WORK):
            groups: Any = await redis.xinfo_groups(key) if await redis.exists(key) else []
            left += [f"{key}: {group}" for group in groups if group["pending"] or group["lag"]]
    return left


async def kept_wrongly(redis_url: str, erased: set[str]) -> list[str]:
    """Return duplicates and data of erased tasks in the stores. Raises ``NotNowError`` if they do not answer."""
    store = Store(redis_url)
    vectors, graph = ArchiverVectors(store), ArchiverGraph(store)
    try:
        segments, (nodes, edges) = await _segments(vectors), await _known(graph)
    except MemoryOutageError as error:
        raise NotNowError(str(error)) from error
    finally:
        await vectors.aclose()
        await graph.aclose()
        await store.close()
    kept = [f"a segment of the erased {task} is kept" for task, _ in segments if task in erased]
    doubled = twice_in_memory(anchor for _, anchor in segments)
    return [*kept, *doubled, *twice_in_graph(nodes, edges), *still_known(nodes, edges, erased)]


async def _segments(vectors: ArchiverVectors) -> list[tuple[str, str]]:
    """Return the task and the anchor of each segment."""
    selection, cursor = Selection(Owner("default"), Whose.ALL, kinds=(SEGMENT_KIND,)), None
    found: list[tuple[str, str]] = []
    while True:
        page = await vectors.scroll(COLLECTION, selection, _PAGE, cursor)
        found += [(point.payload.task, point.payload.anchor) for point in page.points]
        cursor = page.next
        if cursor is None:
            return found


async def _known(graph: ArchiverGraph) -> tuple[list[MemoryNode], list[MemoryEdge]]:
    nodes: list[MemoryNode] = []
    edges: list[MemoryEdge] = []
    while page := await graph.node_page("default", _PAGE, nodes[-1].id if nodes else ""):
        nodes += page
    while more := await graph.edge_page("default", _PAGE, edge_key(edges[-1]) if edges else ""):
        edges += more
    return nodes, edges
