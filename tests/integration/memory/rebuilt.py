"""A memory that was written as the services write it, and is lost and rebuilt: with the real stores, driven by hand."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task, TaskRecord
from pentad.contracts.streams import LEARN, REMEMBER
from pentad.services.archiver.damage import DamagedParts, DamageWatch
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.extracting import Extracting
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.archiver.rebuilding import Rebuilding
from pentad.services.archiver.rebuilding_tasks import RebuildingTasks
from pentad.services.archiver.remembering import Remembering
from pentad.services.gateway.domain.additions import read_edge, read_node
from pentad.services.gateway.domain.episode import read_episode
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.statements import Episodes, KnowledgeEdits
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.current_collection import adopt_current
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.memory.memory_counts import MemoryCounts
from pentad.shared.memory.rebuild_progress import RebuildProgress, Rebuilds
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.work.entry import Entry
from tests.integration.memory.remembered import AT
from tests.support.graph_export import exported
from tests.support.remembering import COLLECTION

_STEPS = 200
"""More than any rebuild here takes."""


class Archive:
    """The stores, and the services' own handlers."""

    def __init__(self, store: Store, folder: Path, records: str | None = None) -> None:
        """``records``: where they are; None: in the folder too."""
        self.store, self.folder = store, folder
        self.records = Records(records or str(folder / "records"))
        self.counts, self.rebuilds = MemoryCounts(store), Rebuilds(store)
        self.open()

    def open(self) -> None:
        """Whoever has it open from now on knows nothing of what was before."""
        self.vectors = EdgeVectors(self.folder / "vectors")
        self.vectors.removals = self.counts
        self.graph = SqliteGraph(self.folder / "graph" / "graph.db")
        self.embedder = HashingEmbedder()
        ended = EndedTasks(self.store, self.records, self.vectors)
        near = NearNodes(self.vectors, self.embedder, self.graph)
        self.remembering = Remembering(self.store, ended, self.vectors, self.embedder)
        self.learning = Learning(ended, self.graph, near)
        self.extracting = Extracting(self.store, self.records, ended, self.graph, near, self.learning, None)
        self.tasks = RebuildingTasks(
            self.store,
            self.records,
            self.graph,
            near,
            ended,
            self.remembering,
            self.learning,
            self.extracting,
        )
        self.watch = DamageWatch(self.counts, self.vectors, self.graph)
        aside = DamagedParts(self.vectors, self.graph)
        self.rebuilding = Rebuilding(self.store, self.records, self.vectors, self.tasks, aside, [0], self.watch.rebuilt)
        self.forgetter = Forgetter(self.store, self.vectors, self.graph, 1)
        self.noting = KnowledgeEdits(
            self.store, self.records, self.graph, self.vectors, self.embedder, Knowledge(self.graph), 1
        )
        self.episodes = Episodes(self.store, self.records, 1)

    async def aclose(self) -> None:
        await self.vectors.aclose()
        await self.graph.aclose()

    async def again(self, *lost: str) -> None:
        """Stop, lose what is in these folders, and start."""
        await self.aclose()
        for name in lost:
            shutil.rmtree(self.folder / name)
        self.open()
        await self.remembering.prepare()
        await adopt_current(self.vectors)
        await self.graph.prepare()

    async def look(self) -> list[str]:
        """What is said to be wrong after a look at both stores, each with what to do."""
        await self.watch.look_at_vectors()
        await self.watch.read_vectors()
        self.watch._count_at = float("-inf")
        await self.watch.look_at_graph()
        return [f"{damage.what}: {damage.do}" for damage in self.watch.damages]

    async def archive(self, keys: TaskKeys, said: Sequence[tuple[str, str, str | None]], **fields: Any) -> None:
        """Let a task have a record, and be remembered and learned from."""
        messages = [
            {"role": role, "content": text, "at": AT} | ({"user_id": user} if user else {}) for role, text, user in said
        ]
        task = Task(
            task_id=keys.task,
            session_id="s1",
            user_id=said[0][2],
            status="completed",
            goal=said[0][1],
            instruction="general",
            created_at=AT,
            updated_at=AT,
            archived_at=AT,
            steps=1,
            usage=TaskUsage(input_tokens=0, output_tokens=0),
        )
        await self.records.write(TaskRecord(tenant_id=keys.tenant, task=task, messages=messages, steps=[], **fields))
        await self.write(keys)

    async def write(self, keys: TaskKeys) -> None:
        """Remember a task and learn from it, as its end has asked for."""
        entry = WakeUp(actor=keys.actor).to_json()
        await self.remembering.handle(Entry(REMEMBER.key(keys.shard), "1-1", entry))
        await self.learning.handle(Entry(LEARN.key(keys.shard), "1-1", entry))

    async def add_node(self, text: str, **fields: Any) -> str:
        """As a person does; its id."""
        asked = read_node({"kind": "fact", "text": text} | fields)
        return (await self.noting.add_node("acme", asked)).id

    async def add_edge(self, source: str, target: str, kind: str, **fields: Any) -> None:
        asked = read_edge({"source": source, "target": target, "type": kind} | fields)
        await self.noting.add_edge("acme", asked)

    async def add_episode(self, text: str, **fields: Any) -> None:
        kept = await self.episodes.keep("acme", read_episode({"text": text} | fields))
        await self.write(TaskKeys(0, "acme", kept.task_id))

    async def forget(self, text: str, tenant: str = "acme") -> None:
        """As a person does: what was said, or what is known, with these words."""
        points = (await self.vectors.scroll(COLLECTION, Selection(Owner(tenant), Whose.ALL), 1000)).points
        meant = [point for point in points if point.payload.text == text]
        assert meant
        await self.forgetter.found(tenant, meant)

    async def contents(self, *tenants: str) -> tuple[list[tuple[str, str, str]], list[str]]:
        """All that the stores have: points with their texts, and the graph."""
        points, known = [], []
        for tenant in tenants or ("acme",):
            page = await self.vectors.scroll(COLLECTION, Selection(Owner(tenant), Whose.ALL), 1000)
            points += [(tenant, point.id, point.payload.text) for point in page.points]
            known += await exported(self.graph, tenant)
        return sorted(points), known

    async def texts(self, tenant: str = "acme") -> list[str]:
        """What searches find."""
        return sorted(text for _, _, text in (await self.contents(tenant))[0] if text)

    async def rebuild(self, steps: int = _STEPS) -> RebuildProgress:
        """Start it or go on with it, to its end or for so many steps."""
        now = await self.rebuilds.start()
        for _ in range(steps):
            if not await self.rebuilding.step():
                break
            now = await self.rebuilds.read() or now
        return now
