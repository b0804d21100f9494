"""Reads that a decision needs: tasks' headers, a session's last turns."""

import asyncio
from collections.abc import Sequence

from contracts.ids import shard_in
from shared.state.headers import TaskHeader, pairs, task_header
from shared.state.keys import SessionKeys, TaskKeys
from shared.state.mail import Turn
from shared.state.store import Store

_ANY = 1 << 30


async def load_task(store: Store, keys: TaskKeys) -> TaskHeader | None:
    """A task's header, or None."""
    return task_header(keys.tenant, keys.task, pairs(await store.call("HGETALL", keys.header)))


async def load_tasks(store: Store, shard: int, tenant: str, ids: Sequence[str]) -> list[TaskHeader | None]:
    """Headers of several tasks of one shard in one round trip; None for '' and for what is not there."""

    async def one(task: str) -> TaskHeader | None:
        if not task or shard_in(task, _ANY) != shard:
            return None
        return await load_task(store, TaskKeys(shard, tenant, task))

    return list(await asyncio.gather(*(one(task) for task in ids)))


async def last_turns(store: Store, keys: SessionKeys, count: int) -> list[Turn]:
    """The session's last turns, oldest first."""
    return [Turn.model_validate_json(raw) for raw in await store.call("LRANGE", keys.turns, -count, -1)]
