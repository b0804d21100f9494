"""A system whose every trace of a word can be looked for: router, runner, tools, archiver, memory, and what erases."""

import fnmatch
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import ARCHIVE, ERASE, LEARN, REMEMBER
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.erased_memory import ErasedMemory, Known
from pentad.services.archiver.erasing import Erasing, TaskEraser
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.archiver.remembering import Remembering
from pentad.services.gateway.memory.erasures import Erasures
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import SessionKeys, TaskKeys, task_index
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.owners import Owner
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.secrets.secret_store import SecretStore
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.graph_export import exported

END_S = 0.3
"""How long a task has to end here."""


def parrot(request: ChatRequest) -> ModelAnswer:
    """A model that says again what it was told."""
    said = next(m for m in reversed(request.messages) if b'"role":"user"' in m)
    return answer(f"you said {said.decode()[:200]}")


class Erasable:
    """The services' own handlers, driven by hand."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        script: Callable[[ChatRequest], ModelAnswer] = parrot,
        records_url: str | None = None,
    ) -> None:
        self.store, self.folder = store, folder
        self.flow = Flow(store, folder, script, pentad_grace_s=0, pentad_records_url=records_url)
        self.records = self.flow.records
        self.vectors = EdgeVectors(folder / "vectors")
        self.graph = SqliteGraph(folder / "graph.db")
        ended = EndedTasks(store, self.records, self.vectors)
        near = NearNodes(self.vectors, HashingEmbedder(), self.graph)
        self.remembering = Remembering(store, ended, self.vectors, HashingEmbedder())
        self.learning = Learning(ended, self.graph, near)
        memory = ErasedMemory(self.vectors, Known(self.graph, near))
        tasks = TaskEraser(store, self.records, memory, HashingEmbedder(), self.flow.actors, (10, 1000), END_S)
        self.scripts = ScriptStore(str(folder / "scripts"))
        self.secrets = SecretStore(str(folder / "secrets"))
        kept = KeptTasks(store, self.records)
        self.erasing = Erasing(store, kept, tasks, memory, [0], scripts=self.scripts, secrets=self.secrets)
        queries = Queries(store, self.records, 1)
        known, walks = Knowledge(self.graph), HitWalks(self.graph)
        memories = Memories(store, queries, self.vectors, HashingEmbedder(), known, walks, 1)
        self.erasures = Erasures(store, queries, memories, 1)

    async def prepare(self) -> "Erasable":
        await self.flow.prepare()
        return self

    async def aclose(self) -> None:
        await self.vectors.aclose()
        await self.graph.aclose()

    async def tell(self, text: str, session: SessionKeys = SESSION, **fields: Any) -> TaskKeys:
        """Say something in a task of its own, to its end; the task."""
        before = set(await self.tasks())
        await self.flow.say(text, session, **fields)
        await self.flow.drive()
        (name,) = set(await self.tasks()) - before
        return TaskKeys(0, "default", name)

    async def tasks(self) -> list[str]:
        return [name.decode() for name in await self.store.call("ZRANGE", task_index(0, "default"), 0, -1)]

    async def remember(self, task: TaskKeys) -> None:
        await self.remembering.handle(Entry(REMEMBER.key(0), "1-1", WakeUp(actor=task.actor).to_json()))

    async def learn(self, task: TaskKeys) -> None:
        await self.learning.handle(Entry(LEARN.key(0), "1-1", WakeUp(actor=task.actor).to_json()))

    async def archive(self, task: TaskKeys) -> None:
        await self.flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=task.actor).to_json()))

    async def bring_to(self, state: str, *tasks: TaskKeys) -> None:
        """Have tasks that have ended `remembered`, with what is learned from them, and also `archived`."""
        for task in tasks:
            if state != "ended":
                await self.remember(task)
                await self.learn(task)
            if state == "archived":
                await self.archive(task)

    async def ask(self, kind: str, task: TaskKeys) -> None:
        """Have the task erased, or the session or the user that it belongs to."""
        if kind == "task":
            await self.erasures.task("default", task.task)
        elif kind == "session":
            await self.erasures.session(SESSION)
        else:
            await self.erasures.user("default", "ada")

    async def asked(self) -> list[Entry]:
        """What is to be erased, as an archiver reads it."""
        found = await self.store.call("XRANGE", ERASE.key(0), "-", "+")
        return [Entry(ERASE.key(0), entry.decode(), fields[1]) for entry, fields in found]

    async def erase(self) -> None:
        """Carry out all that was asked for."""
        for entry in await self.asked():
            await self.erasing.handle(entry)

    async def traces(self, word: str) -> list[str]:
        """Where a word stands: keys of Redis, files, points of memory, the graph."""
        found = [key.decode() for key in await self.store.call("KEYS", "*") if await self._says(key, word)]
        files = [path for path in self.folder.rglob("*.json*") if path.is_file() and word in path.read_text()]
        files += [path for path in self.folder.rglob("_by_*/**/*") if word in path.name]
        found += [str(path.relative_to(self.folder)) for path in files]
        for there in await self.vectors.collections():
            page = await self.vectors.scroll(there.name, Selection(Owner("default"), Whose.ALL), 1000)
            found += [f"point {point.id}" for point in page.points if word in str(point)]
        found += [f"known: {line}" for line in await exported(self.graph, "default") if word in line]
        return sorted(found)

    async def _says(self, key: bytes, word: str) -> bool:
        kind = await self.store.call("TYPE", key)
        read: dict[bytes, tuple[Any, ...]] = {
            b"string": ("GET", key),
            b"hash": ("HGETALL", key),
            b"list": ("LRANGE", key, 0, -1),
            b"zset": ("ZRANGE", key, 0, -1),
            b"stream": ("XRANGE", key, "-", "+"),
        }
        return word in str(key) + str(await self.store.call(*read[kind]))

    async def left_of(self, task: TaskKeys) -> list[str]:
        """Keys of a task, its mark aside."""
        keys = [key.decode() for key in await self.store.call("KEYS", f"{task.header.replace('{', '?')}*")]
        return [key for key in keys if not fnmatch.fnmatch(key, "*:erased")]
