"""Clients have kept what was said elsewhere: a record of a task with that one message, which is remembered like any."""

from pentad.contracts.ids import rfc3339, shard_of
from pentad.contracts.memories import KeptEpisode
from pentad.services.gateway.domain.episode import EpisodeToKeep
from pentad.services.gateway.edge.problems import invalid
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.remember_again import ask_to_remember
from pentad.shared.memory.statements import STATED, episode_about, statement, statement_id, supports_of
from pentad.shared.owners import Owner
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store


class Episodes:
    """Writes the record, then has it remembered: whatever ends in between, the same call mends it.

    Raises ``OutageError``, and ``ProblemError`` for what was erased.
    """

    def __init__(self, store: Store, records: Records, shards: int) -> None:
        self._store, self._records, self._shards = store, records, shards

    async def keep(self, tenant: str, asked: EpisodeToKeep) -> KeptEpisode:
        """Keep it; with the same time it is the same one. It is found a moment later."""
        owner, now = Owner(tenant, asked.user), rfc3339(await self._store.clock())
        at = asked.at or now
        shard = shard_of(tenant, STATED, self._shards)
        keys = TaskKeys(shard, tenant, statement_id(shard, owner, episode_about(at), asked.text))
        if await is_erased(self._store, keys):
            raise invalid("at: this was said at that time, and was erased; say it at another time, or without one")
        record = await self._records.read(tenant, keys.task)
        if record is None:
            record = statement(keys.task, owner, asked.text, at, now)
            await self._records.write(record)
        await ask_to_remember(self._store, keys)
        return KeptEpisode(task_id=keys.task, anchor=supports_of(record)[0].anchor, at=at)
