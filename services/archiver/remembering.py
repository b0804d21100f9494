"""What was said in a task that has ended can be found from now on: its segments are embedded and written as points."""

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import LEARN, REMEMBER
from pentad.services.archiver.ended_tasks import EndedTasks, ReadTask, task_named
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.last_tasks import LastTasks
from pentad.services.archiver.task_writer import TaskWriter
from pentad.shared import metrics
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import prepare_forgotten
from pentad.shared.memory.increments import FirstWritten
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry

_MOST_UNFINISHED = 10_000
"""Tasks that have failed here: what became a dead letter is not handled again, and not to be known for ever."""


_REBUILD = "rebuild"
"""Why texts are embedded that no entry has asked for."""


class Remembering:
    """At least once, and only what is new: a redelivery writes the whole task again, and so repairs what a kill left.

    A task is read from Redis, else from its record: neither waits for the memory, which may be away for long.
    """

    def __init__(self, store: Store, ended: EndedTasks, vectors: Vectors, embedder: Embedder) -> None:
        self._store, self._vectors, self._ended = store, vectors, ended
        self._memory = ErasedMemory(vectors)
        self._writer = TaskWriter(vectors, embedder, TenantMemories(store))
        self._unfinished: LastTasks[bool] = LastTasks(_MOST_UNFINISHED)
        """Tasks whose last handling in this process has failed."""

    async def prepare(self) -> str:
        """Make the collection of the embedding model, so that it can be searched while it is empty; returns its name.

        Raises ``MemoryOutageError`` while the model or the store is away.
        """
        await prepare_forgotten(self._vectors)
        return await self._writer.prepare()

    async def handle(self, entry: Entry) -> None:
        """Remember the task that the entry names, as it is now; again when it went on meanwhile."""
        keys = task_named(entry, REMEMBER)
        whole = entry.redelivered or self._unfinished.get(keys.actor) is not None
        try:
            task = await self._remember(keys, entry.id, whole=whole)
        except BaseException:
            self._unfinished.put(keys.actor, True)
            raise
        self._unfinished.pop(keys.actor)
        if task is not None:
            metrics.remember_seconds.labels().observe(max(0, task.read_at - task.said.ended_at) / 1000)
            await self._ask_to_learn(keys)

    async def rebuild(self, keys: TaskKeys) -> None:
        """Write all that a task says, whatever the store has of it. Nobody is asked to learn from it."""
        await self._remember(keys, _REBUILD, whole=True)

    def begin_rebuild(self) -> None:
        """Believe nothing of what is known of the store: it may be another one."""
        self._writer.forget_collections()

    async def _remember(self, keys: TaskKeys, cause: str, *, whole: bool) -> ReadTask | None:
        """Write it until it is written as it is; then that is returned, None when there is nothing of it.

        A slower writer of an older one writes the newer one behind it. ``whole``: whoever began this before did not end
        it, and may have written over what is newer.
        """
        written: FirstWritten = {}
        task = await self._ended.read(keys)
        if task is None or not task.has_ended:
            await self._stay_erased(keys, task)
        while task is not None and task.has_ended:
            before, said = task, task.said
            requester = Requester(keys.shard, said.tenant, said.session, task=said.task, cause=cause)
            await self._writer.write(said, before.remaining.task, requester, written, whole=whole)
            task = await self._ended.read(keys)
            await self._stay_erased(keys, task)
            if task is not None and task.has_ended and task.is_as(before):
                return task
        return None

    async def _ask_to_learn(self, keys: TaskKeys) -> None:
        """The graph may be away for longer than what was said may wait to be found: it has a stream of its own."""
        await self._store.call("XADD", LEARN.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
        metrics.published.labels(LEARN.name, WakeUp.__name__).inc()

    async def _stay_erased(self, keys: TaskKeys, task: ReadTask | None) -> None:
        """What was erased is not found any more: the task, or a user in it. ``task``: as it was read behind a write."""
        if task.is_erased if task is not None else await self._ended.erased(keys):
            await self._memory.forget_tasks(keys.tenant, [keys.task])
        elif task is not None:
            for user, at in task.remaining.erased_users.items():
                await self._memory.forget_user(keys.tenant, user, at, [keys.task])
