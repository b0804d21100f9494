"""A running system whose clients, models and tools do their worst, and how long each service's loop is held by it.

What counts is `pentad_loop_held_seconds`: of each delay of a loop the part in which its own process worked, in
processor time. While the machine gives a process no turn its processor time stands still, so a busy neighbour adds
nothing to it. What is left are caches and cores that a neighbour makes slower: a case that held a loop for too long is
tried again, and only what holds it each time is a fault.
"""

import asyncio
import re
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import sin
from operator import add
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

from pentad.contracts.records import Anchor, SegmentType
from pentad.shared import metrics
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER, MEMORY_RETRIEVER, ROUTER
from pentad.shared.memory.nodes import node_point
from pentad.shared.memory.true_times import times_of
from pentad.shared.models.embeddings import EmbeddingModel, HashingEmbedding
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text, quote_digest
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.points import collection_name
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import MODEL, Reply, say
from tests.support.ports import free_port
from tests.support.processes.crew import Crew, crew
from tests.support.processes.system import MODULES, Process
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S

BOUND_S = 0.1
"""Seconds for which no loop may be held."""
TRIES = 3
GREEDY = {"authorization": "Bearer greedy-key"}
ADMIN = {"authorization": "Bearer admin-key"}
NODES, HUBS, POINTS = 2_000, 12, 400
"""Of the memory that is searched: nodes, those that all others lead to, nodes that searches find."""
ERASED_USER = Owner("greedy", "many")
ERASED_NODES = range(15, NODES, 5)
"""Numbers of the nodes of a user who is erased."""


class DenseEmbedding(HashingEmbedding):
    """Hashing as a model would do it: each number of a vector is written with all its digits."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self._noise = [sin(place) / 100_000 for place in range(dimensions)]

    def vector(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return list(map(add, super().vector(text), self._noise))


@dataclass
class World:
    """The running system, and what the scripted model answers."""

    team: Crew
    url: str
    bus: Bus
    http: httpx2.AsyncClient
    model: ScriptedModel
    hubs: list[str]
    """Ids of nodes of the greedy tenant to which all others lead."""
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    """Next answers of the chat model, by a text in the newest user message."""
    instructed: dict[str, Reply] = field(default_factory=dict)
    """Answers to the system's own questions, by the name of the built-in instruction that asks."""
    asked: Counter[str] = field(default_factory=Counter)
    """Number of such questions, by the name of the instruction."""

    async def turn(self, *replies: Reply, said: str = "", **fields: Any) -> str:
        """Say something that the model answers so, step by step, and wait for the turn's end; returns its task."""
        mark = f"say {uuid4().hex}" if replies or not said else ""
        if replies:
            self.replies[mark] = list(replies)
        body = {"content": f"{said} {mark}".strip(), "session_id": f"s-{uuid4().hex[:12]}", **fields}
        answer = await self.http.post("/v1/messages?wait=60", json=body, headers=GREEDY)
        assert answer.status_code == 200, answer.text[:500]
        return str(answer.json()["task_id"])

    def answer(self, request: dict[str, Any]) -> Reply:
        """Return the scripted answer to a request."""
        first = request["messages"][0]
        prompt = first["content"] if first["role"] == "system" else ""
        asking = next((each.name for each in _ASKING if prompt.startswith(each.system_prompt)), "")
        if asking:
            self.asked[asking] += 1
            return self.instructed.get(asking, say("ok"))
        said = next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), "")
        left = next((replies for mark, replies in self.replies.items() if mark in said), [])
        return (left.pop(0) if len(left) > 1 else left[0]) if left else say("ok")


_ASKING = (ROUTER, MEMORY_ARCHIVER, MEMORY_RETRIEVER)
"""Instructions by which the system itself asks the model."""
Case = Callable[[World], Awaitable[None]]


@asynccontextmanager
async def system(folder: Path, embedding: HashingEmbedding | None = None, **more: str) -> AsyncIterator[World]:
    """Run one process of each service. ``embedding``: the model that the memory was written with; ``more``: settings
    beside the usual ones, in which ``{base_url}`` is the address of the scripted model."""
    port = free_port()
    base_url = f"http://127.0.0.1:{port}/v1"
    environment = {
        "LLM_BASE_URL": base_url,
        "LLM_MODEL_ID": MODEL,
        "PENTAD_PLUGINS": "tests.support.plugins.heavy_tools",
        "PENTAD_API_KEYS": "greedy-key:greedy,modest-key:modest",
        "PENTAD_ADMIN_KEY": "admin-key",
        "PENTAD_STEP_TIMEOUT_S": "60",
        **{name: value.format(base_url=base_url) for name, value in more.items()},
    }
    embedding = embedding or HashingEmbedding()
    hubs = await _fill(folder, embedding)
    counts = dict.fromkeys(MODULES, 1)
    async with ScriptedModel(lambda _: say("ok"), port=port, record=False) as model:
        with RedisServer() as redis:
            async with (
                crew(redis.url, folder, counts, **environment) as team,
                Bus(redis.url) as bus,
                httpx2.AsyncClient(base_url=team.named("gateway")[0].url, trust_env=False, timeout=90) as http,
            ):
                world = World(team, team.named("gateway")[0].url, bus, http, model, hubs)
                model.script, model.embedding = world.answer, embedding
                yield world


async def _fill(folder: Path, embedding: EmbeddingModel) -> list[str]:
    """A memory of some thousand nodes and notes, some of which all others lead to; ids of these."""
    owner = Owner("greedy")
    hubs = [known_node(owner, n, rests=500) for n in range(HUBS)]
    nodes = [known_node(ERASED_USER if n in ERASED_NODES else owner, n) for n in range(HUBS, NODES)]
    edges = [
        MemoryEdge(each.owner, each.id, hub.id, EdgeType.RELATED_TO, 0.5 + (n % 50) / 100, 1, each.supports)
        for n, each in enumerate(nodes)
        for hub in hubs
    ]
    graph = SqliteGraph(folder / "memory" / "graph" / "graph.db", timeout_s=60)
    for begin in range(0, NODES, 500):
        await graph.upsert_nodes([*hubs, *nodes][begin : begin + 500])
    for begin in range(0, len(edges), 1_000):
        await graph.upsert_edges(edges[begin : begin + 1_000])
    await graph.aclose()
    vectors = EdgeVectors(folder / "memory" / "vectors", timeout_s=60)
    dimensions = embedding.dimensions or 0
    collection = collection_name(embedding.name, dimensions)
    await vectors.prepare(collection, dimensions)
    some = [*hubs, *nodes[:POINTS]]
    made = zip(some, await embedding.embed([node.text for node in some]), strict=True)
    points = [node_point(node, "s1", vector, times_of(node, ())) for node, vector in made]
    for begin in range(0, len(points), MOST_POINTS):
        await vectors.upsert(collection, points[begin : begin + MOST_POINTS])
    await vectors.aclose()
    return [hub.id for hub in hubs]


def known_node(owner: Owner, number: int, rests: int = 1) -> MemoryNode:
    """Return the node of this number; ``rests``: the number of statements that it rests on."""
    text = f"topic {number} is about Ada and Oslo " + "and more " * 10
    supports = tuple(
        Support(anchor_text(_anchor(number, place)), f"task-0-{number:020x}", owner.user, 1 + place)
        for place in range(rests)
    )
    name = node_id(owner, NodeKind.FACT, text)
    return MemoryNode(name, owner, NodeKind.FACT, text, 0.5, 1, supports)


def _anchor(number: int, place: int) -> Anchor:
    at, task = "2026-01-01T00:00:00.000Z", f"task-0-{number:020x}"
    return Anchor(
        task_id=task,
        step=0,
        position=place,
        part=0,
        segment=0,
        start=0,
        end=9,
        type=SegmentType.USER_MESSAGE,
        at=at,
        quote=quote_digest("topic"),
    )


class Holds:
    """How long each service's loop was held."""

    def __init__(self, team: Crew) -> None:
        self._team = team
        self._before: dict[str, dict[float, float]] = {}

    async def begin(self) -> None:
        """Count from now on."""
        self._before = {process.name: await _buckets(process) for process in self._team.processes}

    async def longest(self) -> dict[str, float]:
        """By service the bound under which the longest hold since then stayed."""
        found = {}
        for process in self._team.processes:
            now, before = await _buckets(process), self._before[process.name]
            since = {bound: count - before[bound] for bound, count in now.items()}
            found[process.name] = next(bound for bound, count in since.items() if count == since[float("inf")])
        return found


async def _buckets(process: Process) -> dict[float, float]:
    page = await asyncio.to_thread(_page, process.url)
    name = metrics.loop_held_seconds.name
    return {float(le): float(n) for le, n in re.findall(rf'^{name}_bucket{{le="(\S+?)"}} (\S+)$', page, re.MULTILINE)}


def _page(url: str) -> str:
    request = urllib.request.Request(f"{url}/metrics", headers=ADMIN)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
    return text


async def held_by(name: str, do: Case, holds: Holds, world: World) -> dict[str, float]:
    """Return the services that this case has held for too long each time, with the bound under which the shortest hold
    stayed."""
    shortest: dict[str, float] = {}
    for _ in range(TRIES):
        await holds.begin()
        await do(world)
        longest = await holds.longest()
        print(f"{name}: {', '.join(f'{service} {bound:g}' for service, bound in longest.items())}")
        shortest = {service: min(bound, shortest.get(service, bound)) for service, bound in longest.items()}
        if max(longest.values()) <= BOUND_S:
            return {}
    return {service: bound for service, bound in shortest.items() if bound > BOUND_S}
