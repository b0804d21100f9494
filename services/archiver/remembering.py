"""What was said in a task that has ended can be found from now on: its segments are embedded and written as points."""

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import LEARN, REMEMBER
from pentad.services.archiver.domain import Said
from pentad.services.archiver.ended_tasks import EndedTasks, task_named
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.task_writer import TaskWriter
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import erased_users, is_erased
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.requester import Requester
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import prepare_forgotten
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.unwritten import Firsts
from pentad.shared.records import Records
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.entry import Entry


class Remembering:
    """At least once, and only what is new: a redelivery writes the whole task again, and so repairs what a kill left.

    A task is read from Redis, else from its record: neither waits for the memory, which may be away for long.
    """

    def __init__(self, store: Store, records: Records, vectors: Vectors, embedder: Embedder) -> None:
        self._store, self._vectors, self._ended = store, vectors, EndedTasks(store, records, vectors)
        self._memory = ErasedMemory(vectors)
        self._writer = TaskWriter(vectors, embedder, TenantMemories(store))
        self._unfinished: set[str] = set()
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
        try:
            await self._remember(keys, entry.id, whole=entry.redelivered or keys.actor in self._unfinished)
        except BaseException:
            self._unfinished.add(keys.actor)
            raise
        self._unfinished.discard(keys.actor)

    async def _remember(self, keys: TaskKeys, cause: str, *, whole: bool) -> None:
        """Write it until it is written as it is. A slower writer of an older one writes the newer one behind it.

        ``whole``: whoever began this before did not end it, and may have written over what is newer.
        """
        written: Firsts = {}
        said = await self._ended.said(keys)
        if said is None:
            await self._stay_erased(keys)
        while said is not None:
            before = said
            task = (await self._ended.remaining(keys, said)).task
            requester = Requester(keys.shard, said.tenant, said.session, task=said.task, cause=cause)
            await self._writer.write(said, task, requester, written, whole=whole)
            said = await self._ended.said(keys)
            await self._stay_erased(keys, before)
            if said is not None and said.is_as(before):
                late_ms = max(0, await self._store.clock() - before.ended_at)
                metrics.remember_seconds.labels().observe(late_ms / 1000)
                await self._ask_to_learn(keys)
                return

    async def _ask_to_learn(self, keys: TaskKeys) -> None:
        """The graph may be away for longer than what was said may wait to be found: it has a stream of its own."""
        await self._store.call("XADD", LEARN.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
        metrics.published.labels(LEARN.name, WakeUp.__name__).inc()

    async def _stay_erased(self, keys: TaskKeys, said: Said | None = None) -> None:
        """What was erased since it was read is not found any more: the task, or a user in it."""
        if await is_erased(self._store, keys):
            await self._memory.forget_tasks(keys.tenant, [keys.task])
            return
        users = {user for message in said.messages if (user := message.get("user_id"))} if said else set()
        for user, at in (await erased_users(self._store, keys.shard, keys.tenant, users)).items():
            await self._memory.forget_user(keys.tenant, user, at, [keys.task])
