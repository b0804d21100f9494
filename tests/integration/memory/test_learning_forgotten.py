"""What is known and was forgotten does not come back with the task that said it, whoever learns from that and when."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.shared.actors.transcript import entry
from pentad.shared.graph.knowledge import MemoryNode, NodeKind
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.integration.memory.learned import ADA, TRIP, learning, names, told
from tests.integration.memory.remembered import AT, TASK, end, everything
from tests.unit.segments.transcripts import answered, calling

NOTE = "The ferry leaves at nine."
OTHER = TaskKeys(0, "acme", "task-0-2")


class Graph(SqliteGraph):
    """Lets a node be forgotten while it is written."""

    forgetter: Forgetter | None = None

    async def upsert_nodes(self, nodes: Sequence[MemoryNode]) -> None:
        forgetter, self.forgetter = self.forgetter, None
        if forgetter is not None:
            await forgetter.nodes("acme", [node for node in nodes if node.kind is NodeKind.FACT])
        await super().upsert_nodes(nodes)


class Stores:
    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.graph, self.vectors = Graph(folder / "graph.db"), EdgeVectors(folder / "vectors")
        self.forgetter = Forgetter(store, self.vectors, self.graph, 1)

    async def learn(self, keys: TaskKeys = TASK) -> None:
        """An archiver that knows nothing of what was before."""
        await learning(self.store, self.folder, self.graph, self.vectors).handle(told(keys))

    async def facts(self) -> list[MemoryNode]:
        """What was noted."""
        return [node for node in await self.graph.node_page("acme", 99) if node.text == NOTE]

    async def found(self) -> list[str]:
        return [each.payload.text for each in await everything(self.vectors) if each.payload.kind == "semantic"]


@pytest.fixture
async def stores(store: Store, tmp_path: Path) -> AsyncIterator[Stores]:
    """A task in which a model has noted something."""
    made = Stores(store, tmp_path)
    await end(store, TRIP)
    call = calling("memory_note", f'{{"text":"{NOTE}"}}')
    await store.call("RPUSH", TASK.log, entry(answered(None, tool_calls=[call]), TranscriptMeta(at=AT, step=2)))
    yield made
    await made.vectors.aclose()
    await made.graph.aclose()


async def test_a_forgotten_node_stays_away_when_its_task_is_learned_from_again(stores: Stores) -> None:
    await stores.learn()
    [note] = await stores.facts()
    assert (note.owner, await stores.found()) == (ADA, [NOTE])
    await stores.forgetter.nodes("acme", [note])
    for _ in range(2):
        await stores.learn()
        assert (await stores.facts(), await stores.found()) == ([], [])
    await end(stores.store, [("user", "She lives in Oslo", "ada")])
    await stores.learn()
    assert (await stores.facts(), await stores.found()) == ([], [])
    assert set(await names(stores.graph)) == {"Mimi Solberg", "Tromso", "Oslo"}, "what else is known stays"


async def test_who_writes_it_while_it_is_forgotten_takes_it_back(stores: Stores) -> None:
    stores.graph.forgetter = stores.forgetter
    await stores.learn()
    assert (await stores.facts(), await stores.found()) == ([], [])
    assert len(await names(stores.graph)) == 2


async def test_said_again_in_another_task_it_is_known_again_and_rests_on_that_alone(stores: Stores) -> None:
    await stores.learn()
    await stores.forgetter.nodes("acme", await stores.facts())
    for key, other in ((TASK.header, OTHER.header), (TASK.log, OTHER.log)):
        await stores.store.call("COPY", key, other)
    await stores.learn(OTHER)
    await stores.learn()
    [note] = await stores.facts()
    assert ({each.task for each in note.supports}, await stores.found()) == ({OTHER.task}, [NOTE])
