"""The recall of a task-runner's handler, over a memory of the test's own."""

from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.graph_store import Graph
from pentad.shared.memory.archiver_graph import ArchiverGraph
from pentad.shared.memory.archiver_vectors import ArchiverVectors
from pentad.shared.memory.hit_walks import HitWalks
from pentad.shared.memory.recalling import TIMEOUT_S, Recalling, WalkChooser
from pentad.shared.memory.searching import MemorySearch
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors


def recalling(
    store: Store,
    vectors: Vectors | None = None,
    tokens: int = 2000,
    timeout_s: float = TIMEOUT_S,
    graph: Graph | None = None,
    chooser: WalkChooser | None = None,
) -> Recalling:
    """Return a recall with the embedding that needs no model. Without a memory nothing is recalled."""
    memory = MemorySearch(vectors or ArchiverVectors(store), HashingEmbedder())
    walks = HitWalks(graph or ArchiverGraph(store), timeout_s)
    return Recalling(memory, walks, TenantMemories(store), tokens if vectors is not None else 0, timeout_s, chooser)
