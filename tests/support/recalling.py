"""The recall of a task-runner's handler, over a memory of the test's own."""

from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.graph_store import Graph
from pentad.shared.memory.archiver_client import ArchiverGraph, ArchiverVectors
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.task_recall import TIMEOUT_S, TaskRecall, WalkChooser
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.walks import HitWalks
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors


def recalling(
    store: Store,
    vectors: Vectors | None = None,
    tokens: int = 2000,
    timeout_s: float = TIMEOUT_S,
    graph: Graph | None = None,
    chooser: WalkChooser | None = None,
) -> TaskRecall:
    """Return a recall with the embedding that needs no model. Without a memory nothing is recalled."""
    memory = MemorySearch(vectors or ArchiverVectors(store), HashingEmbedder())
    walks = HitWalks(graph or ArchiverGraph(store), timeout_s)
    return TaskRecall(memory, walks, TenantMemories(store), tokens if vectors is not None else 0, timeout_s, chooser)
