"""What a search finds leads on through the graph: alike in both pairs of stores, bounded, to nothing of another's."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.contracts.records import Anchor, SegmentType
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, Metadata, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.nodes import NodePointWriter, stored_metadata
from pentad.shared.memory.points import cut_task
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.task_graph import task_graph
from pentad.shared.memory.task_recall import RecallQuestion
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.walk_choice import requested_walk
from pentad.shared.memory.walks import HitWalks, WalkedMemories
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.vector_store import Vectors
from tests.integration.memory.both_stores import BOTH, vectors_and_graph
from tests.support.neo4j.neo4j_server import neo4j_server
from tests.support.recalling import recalling
from tests.support.remembering import remember
from tests.support.waiting import PATIENCE_S
from tests.unit.segments.transcripts import answered, said

__all__ = ["neo4j_server"]

FERRY, TICKET, PIER = "The ferry to Bergen leaves at nine", "Tickets cost forty crowns", "One boards at pier four"
BOBS, OLD = "Bob pays half", "Tickets cost thirty crowns"
NOW = 1_900_000_000_000


class Known:
    """Facts with edges between them, one of which a question finds."""

    def __init__(self, vectors: Vectors, graph: Graph) -> None:
        self.owner, self.patience_s = Owner(f"t{uuid4().hex}", "ada"), PATIENCE_S
        self.vectors, self.graph = vectors, graph

    def support(self, text: str, owner: Owner) -> Support:
        task = f"task-0-{len(text)}"
        place = Anchor(
            task_id=task, position=0, part=0, segment=0, step=0, type=SegmentType.USER_MESSAGE, at="", start=0,
            end=len(text), quote="0" * 32,
        )  # fmt: skip
        return Support(anchor_text(place), task, owner.user, 1_000)

    def fact(self, text: str, kind: NodeKind = NodeKind.FACT, user: str = "ada", **more: Any) -> MemoryNode:
        owner = Owner(self.owner.tenant, user)
        return MemoryNode(
            node_id(owner, kind, text), owner, kind, text, 0.5, 1_000, (self.support(text, owner),), **more
        )

    def edge(
        self, source: MemoryNode, target: MemoryNode, weight: float, kind: EdgeType, at: int = 1_000
    ) -> MemoryEdge:
        supports = (replace(source.supports[0], at=at),)
        return MemoryEdge(source.owner, source.id, target.id, kind, weight, at, supports)

    async def teach(self) -> None:
        """The ferry leads to its ticket and from there to the pier; what is over or another's lies beside it."""
        ferry, ticket = (self.fact(text, metadata=Metadata('{"from":"crm"}', 1)) for text in (FERRY, TICKET))
        pier = self.fact(PIER)
        bobs, old = self.fact(BOBS, user="bob"), self.fact(OLD, true_until=2_000)
        await self.graph.upsert_nodes([ferry, ticket, pier, bobs, old])
        await self.graph.upsert_edges([
            self.edge(ferry, ticket, 0.9, EdgeType.RELATED_TO), self.edge(ticket, pier, 0.8, EdgeType.PART_OF),
            self.edge(ferry, old, 1.0, EdgeType.RELATED_TO), self.edge(ticket, old, 1.0, EdgeType.CONTRADICTS, 2_000),
        ])  # fmt: skip
        asking = Requester(0, self.owner.tenant, "s1")
        await NodePointWriter(self.vectors, HashingEmbedder(), self.graph).write([ferry], "s1", asking)

    async def ask(self, strategy: str, depth: int = 2, limit: int = 10, as_of: int | None = None) -> WalkedMemories:
        asked = MemoryQuestion(self.owner, "When does the ferry leave?", limit, NOW, as_of=as_of)
        hits = await MemorySearch(self.vectors, HashingEmbedder()).search(asked, Requester(0, self.owner.tenant, "s1"))
        walks = HitWalks(self.graph, self.patience_s, self.patience_s)
        return await walks.walked(asked, hits, requested_walk(strategy, depth, hits))


@pytest.fixture(params=BOTH)
async def known(request: Any, tmp_path: Path) -> AsyncIterator[Known]:
    async with vectors_and_graph(request, tmp_path) as (vectors, graph):
        yield Known(vectors, graph)


def way(hit: MemoryHit) -> list[tuple[str, str, str, float]]:
    """The edges from a hit to the start of its walk, by the texts of their ends."""
    names = {
        node_id(Owner(hit.payload.owner.tenant, "ada"), NodeKind.FACT, text): text for text in (FERRY, TICKET, PIER)
    }
    return [(names[edge.source], edge.type.value, names[edge.target], edge.weight) for edge in hit.path]


def texts(found: WalkedMemories) -> list[str]:
    return [hit.payload.text for hit in found.hits]


async def test_each_strategy_adds_what_lies_beside_with_score_anchor_and_task(known: Known) -> None:
    await known.teach()
    assert texts(await known.ask("none")) == [FERRY]
    for strategy in ("auto", "bfs", "dfs", "astar"):
        found = await known.ask(strategy)
        assert texts(found) == [FERRY, TICKET, PIER], strategy
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        assert [way(hit) for hit in found.hits] == [
            [], [(FERRY, "related_to", TICKET, 0.9)],
            [(TICKET, "part_of", PIER, 0.8), (FERRY, "related_to", TICKET, 0.9)],
        ]  # fmt: skip
        for hit in found.hits[1:]:
            assert hit.parts == {"walk": hit.score}
            assert hit.payload.anchor == known.support(hit.payload.text, known.owner).anchor
        assert [(each.task, each.hits) for each in found.tasks] == [(hit.payload.task, (hit.id,)) for hit in found.hits]


async def test_a_walk_is_as_deep_as_is_asked_and_gives_no_more_hits_than_are(known: Known) -> None:
    await known.teach()
    assert texts(await known.ask("bfs", depth=0)) == [FERRY]
    assert texts(await known.ask("bfs", depth=1)) == [FERRY, TICKET]
    found = await known.ask("bfs", limit=2)
    assert texts(found) == [FERRY, TICKET]
    assert [stored_metadata(hit.payload) for hit in found.hits] == [{"from": "crm"}, {"from": "crm"}]


async def test_as_of_a_time_it_leads_to_what_was_true_then(known: Known) -> None:
    await known.teach()
    assert texts(await known.ask("bfs", depth=1, as_of=1_500)) == [FERRY, OLD, TICKET]
    assert texts(await known.ask("bfs", as_of=500)) == []


async def test_names_in_what_was_said_lead_to_tasks_beside_it(known: Known) -> None:
    """As a task is learned from without a model: names, and the tasks in which they are said."""
    tenant = known.owner.tenant
    tasks = {
        "task-0-1": [said("When the ferry leaves Bergen I meet Mimi Solberg", user_id="ada"), answered("Fine.")],
        "task-0-2": [said("My dentist is called Mimi Solberg too", user_id="ada"), answered("I see.")],
    }
    for task, messages in tasks.items():
        graph = task_graph(cut_task(tenant, task, "s1", messages), "")
        await known.graph.upsert_nodes(graph.nodes)
        await known.graph.upsert_edges(graph.edges)
    await remember(known.vectors, tenant, "task-0-1", tasks["task-0-1"])
    found = await known.ask("bfs")
    assert {"Mimi Solberg", "Bergen"} <= set(texts(found))
    assert [each.task for each in found.tasks] == ["task-0-1", "task-0-2"]
    assert found.tasks[1].hits == () or "Mimi Solberg" in texts(found)
    assert set(texts(await known.ask("auto"))) == {tasks["task-0-1"][0]["content"], "Fine."}, "no rule walks from names"


async def test_a_new_task_recalls_what_lies_beside_what_is_about_it(known: Known, store: Store) -> None:
    await known.teach()
    await TenantMemories(store).writing(known.owner.tenant)
    asked = RecallQuestion(known.owner, ["When does the ferry leave?"], (), "task-0-99", NOW)
    memory = recalling(store, known.vectors, timeout_s=PATIENCE_S, graph=known.graph)
    found = await memory.recall(asked, Requester(0, known.owner.tenant, "s1"))
    assert [quote.text for quote in quotes_in(found.text)] == [FERRY, TICKET, PIER]
    assert "crm" not in found.text, "what clients keep with a node is not for models"


class Hanging(SqliteGraph):
    """Never answers, or is away."""

    hangs = True

    async def links(self, *given: Any, **more: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        raise MemoryOutageError("away")

    async def nodes(self, owner: Owner, ids: Sequence[str]) -> list[MemoryNode]:
        raise MemoryOutageError("away")


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_graph_that_is_away_costs_a_walk_and_no_hits(tmp_path: Path, hangs: bool) -> None:
    known = Known(EdgeVectors(tmp_path / "vectors"), SqliteGraph(tmp_path / "graph.db"))
    await known.teach()
    await known.graph.aclose()
    known.graph = Hanging(tmp_path / "graph.db")
    known.graph.hangs, known.patience_s = hangs, 0.05
    assert texts(await known.ask("auto")) == [FERRY]
    with pytest.raises(MemoryOutageError):
        await known.ask("bfs")
    await known.vectors.aclose()
    await known.graph.aclose()
