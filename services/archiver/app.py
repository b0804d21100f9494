"""The archiver's composition root."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from pentad.contracts.streams import ARCHIVE, ERASE, MEMORY, REMEMBER
from pentad.services.archiver.erased_memory import ErasedMemory
from pentad.services.archiver.erasing import Erasing
from pentad.services.archiver.erasing_tasks import ErasingTasks
from pentad.services.archiver.handlers import Archiving
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.services.archiver.remembering import Remembering
from pentad.services.archiver.vector_requests import VectorRequests
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import MemoryTakenError, PentadError
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.current import adopt
from pentad.shared.memory.opening import embedded_vectors, server_vectors
from pentad.shared.models.ports import ModelFailed
from pentad.shared.records import Records
from pentad.shared.seldom import Seldom
from pentad.shared.service.background import Background
from pentad.shared.service.consuming import EntryService
from pentad.shared.settings import Settings
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.consumer import Consumer

_say = Seldom(logging.getLogger(__name__))

_SLOTS = 16
_REMEMBER_SLOTS = 8
_REQUEST_SLOTS = 64
_ERASE_SLOTS = 2
_EMBED_S = 60.0
"""How long a batch may take: nobody waits for it."""
_AGAIN_S = 1.0
"""How often a memory that is taken or away is tried again."""
_LOOK_S = 10.0
"""How often it is looked whether it is well."""

_OTHER_MODEL = (
    "%d points of the memory are of another embedding model (%s): they are found by their words alone. "
    "`pentad memory reindex` embeds them for the one in use (%s); or set EMBED_* to what it was"
)


class Archiver(EntryService):
    """Lets what was said in finished tasks be found, writes their records and removes them from Redis.

    The embedded memory is one archiver's; others stand by, and archive meanwhile.
    """

    name = "archiver"
    check = "archiving"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        records, grace_ms = Records(settings.records_url), round(settings.pentad_grace_s * 1000)
        archiving = Archiving(self.store, records, grace_ms, settings.session_ttl_s)
        self.serve_entries(ARCHIVE, archiving.handle, _SLOTS)
        self._at_start = list(self.consumers)
        self._vectors: Vectors = server_vectors(settings) or embedded_vectors(settings)
        self._embedder = make_embedder(settings, self.store, _EMBED_S)
        self._remembering = Remembering(self.store, records, self._vectors, self._embedder)
        self.serve_entries(REMEMBER, self._remembering.handle, _REMEMBER_SLOTS)
        self.serve_entries(ERASE, self._erasing(records).handle, _ERASE_SLOTS)
        if isinstance(self._vectors, ChildVectors):
            self.serve_entries(MEMORY, VectorRequests(self.store, self._vectors).handle, _REQUEST_SLOTS)
        self._memory = Background()
        self._memory_trouble: str | None = "it is being opened"

    def _erasing(self, records: Records) -> Erasing:
        settings, memory = self.settings, ErasedMemory(self._vectors)
        limits = settings.pentad_tasks_per_session, settings.tenant_tasks_per_shard
        actors = Actors(self.store, self.consumer_name, settings.lease_ms)
        tasks = ErasingTasks(self.store, records, memory, self._embedder, actors, limits)
        return Erasing(self.store, KeptTasks(self.store, records), tasks, memory, self.shards)

    def reading_at_start(self) -> Sequence[Consumer]:
        return self._at_start

    async def start(self) -> None:
        await super().start()
        self._memory.run(self._keep_memory())

    async def stop(self) -> None:
        await self._memory.stop()
        await super().stop()

    async def close(self) -> None:
        await self._embedder.aclose()
        await self._vectors.aclose()

    def checks(self) -> Mapping[str, str | None]:
        return {**super().checks(), "memory": self._memory_trouble}

    def alive(self) -> bool:
        return self._memory.alive() and super().alive()

    async def _keep_memory(self) -> None:
        """Open it, read what is to be done with it, and look from time to time whether it is well."""
        while not await self._tried(self._open):
            await asyncio.sleep(_AGAIN_S)
        for consumer in self.consumers:
            if consumer not in self._at_start:
                await consumer.start()
        while True:
            await asyncio.sleep(_LOOK_S if await self._tried(self._look) else _AGAIN_S)

    async def _open(self) -> None:
        if isinstance(self._vectors, ChildVectors):
            await self._vectors.open()

    async def _look(self) -> None:
        fresh = await self._remembering.prepare()
        current = await adopt(self._vectors)
        if current is not None and current.name != fresh:
            _say.warning("model", _OTHER_MODEL, current.points, current.name, fresh)
        metrics.memory_points.labels().set(sum(there.points for there in await self._vectors.collections()))

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Whether it went well. An archiver that stands by has no trouble: another one does the work."""
        try:
            await work()
        except MemoryTakenError as error:
            _say.warning("standing by", "stands by: %s", error)
            self._memory_trouble = None
            return False
        except (PentadError, ModelFailed) as error:
            _say.warning("memory", "the long-term memory waits: %s", error)
            self._memory_trouble = str(error)
            return False
        self._memory_trouble = None
        return True


def build(settings: Settings) -> Archiver:
    """The archiver, ready to start."""
    return Archiver(settings)
