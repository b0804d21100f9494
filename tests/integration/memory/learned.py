"""The archiver's handler that learns from a task that has ended, one entry after the other, and graphs that fail."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import LEARN
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.extraction_model import ExtractionModel
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.graph_store import Graph
from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, NodeKind
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.extraction_budget import ExtractionBudget
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.ports import ChatModel
from pentad.shared.owners import Owner
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.work.entry import Entry
from tests.integration.memory.dying import Dying
from tests.integration.memory.remembered import TASK

ADA = Owner("acme", "ada")
TRIP = [("user", "I met Mimi Solberg in Tromso", "ada"), ("assistant", "What did she tell you?", None)]
MORE = [("user", "She lives in Oslo, near Tromso", "ada"), ("assistant", "I see.", None)]


def reading(store: Store, folder: Path, vectors: EdgeVectors | None = None) -> EndedTasks:
    """What reads ended tasks."""
    return EndedTasks(store, Records(str(folder / "records")), vectors or EdgeVectors(folder / f"unused-{uuid4().hex}"))


def learning(
    store: Store, folder: Path, graph: Graph, vectors: EdgeVectors | None = None, ended: EndedTasks | None = None
) -> Learning:
    """The handler, of an archiver that knows nothing of what was before."""
    kept = vectors or EdgeVectors(folder / f"unused-{uuid4().hex}")
    return Learning(ended or reading(store, folder, kept), graph, NearNodes(kept, HashingEmbedder(), graph))


def extracting(
    store: Store,
    records: Records,
    ended: EndedTasks,
    graph: Graph,
    near: NearNodes,
    chat: ChatModel | None,
    budget: ExtractionBudget | None = None,
    gather_s: float = 0.0,
) -> Extracting:
    """The handler of extraction, of an archiver that asks this model and waits for no other tasks."""
    model = extraction_model(store, chat, budget) if chat is not None else None
    return Extracting(store, records, ended, graph, near, Learning(ended, graph, near, model), model, gather_s)


def extraction_model(store: Store, chat: ChatModel, budget: ExtractionBudget | None = None) -> ExtractionModel:
    """The model that is asked about archived tasks; without a ``budget``, for as much as may be wanted."""
    return ExtractionModel(pool_of(chat), InstructionBook(store), budget or ExtractionBudget(store, 10**9, 1.0))


def told(keys: TaskKeys = TASK, *, redelivered: bool = False) -> Entry:
    """The entry that remembering has queued."""
    return Entry(LEARN.key(keys.shard), "1-1", WakeUp(actor=keys.actor).to_json(), redelivered)


async def names(graph: Graph) -> dict[str, str | None]:
    """Entities, and whose they are."""
    nodes = await graph.node_page("acme", 1000)
    return {node.text: node.owner.user for node in nodes if node.kind is NodeKind.ENTITY}


class DyingGraph(Dying, SqliteGraph):
    """A graph that dies."""

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        await self.at(lambda: SqliteGraph.upsert_nodes(self, nodes))

    async def upsert_edges(self, edges: Sequence[MemoryEdge]) -> None:
        await self.at(lambda: SqliteGraph.upsert_edges(self, edges))

    async def retain(self, tenant: str, task: str, anchors: Sequence[str]) -> None:
        await self.at(lambda: SqliteGraph.retain(self, tenant, task, anchors))


class Slow(SqliteGraph):
    """Lets something happen before its first nodes are written."""

    meanwhile: Callable[[], Any] | None = None

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            await happens()
        await super().upsert_nodes(nodes)
