"""What data of earlier versions lacks is added once, by whichever task-runner comes first. Safe to repeat."""

import logging
from collections.abc import AsyncIterator, Sequence

from pentad.shared.keys import CLUSTER, TaskKeys, tag, timers
from pentad.shared.store.store import Argument, Store, guarded

log = logging.getLogger(__name__)

LAYOUT = 3
"""2: a task that waits for a person has a timer (0.2). 3: and one after which it is stale."""
_PAGE = 1000


async def upgrade(store: Store, shards: Sequence[int], wait_ttl_ms: int, stale_ms: int) -> int:
    """Bring the data to today's layout. Returns how many tasks were given what they lacked."""
    found = await guarded("the layout of the data", store.call, "HGET", CLUSTER, "layout")
    if found is not None and int(found) >= LAYOUT:
        return 0
    mended = 0
    for shard in shards:
        async for task in _tasks(store, shard):
            mended += await _wait_ends(store, task, wait_ttl_ms, stale_ms)
    await guarded("the layout of the data", store.call, "HSET", CLUSTER, "layout", LAYOUT)
    if mended:
        log.warning("%d tasks of an earlier version wait for a person: they end when nobody comes", mended)
    return mended


async def _tasks(store: Store, shard: int) -> AsyncIterator[TaskKeys]:
    """Every task of a shard that is in Redis."""
    cursor = b"0"
    while True:
        command = ("SCAN", cursor, "MATCH", f"{tag(shard)}:task:*", "COUNT", _PAGE, "TYPE", "hash")
        cursor, keys = await guarded("tasks", store.call, *command)
        for key in keys:
            parts = key.decode().split(":")
            if len(parts) == 5:  # the header; a task's other keys have a name behind it
                yield TaskKeys(shard, parts[3], parts[4])
        if cursor == b"0":
            return


async def _wait_ends(store: Store, task: TaskKeys, wait_ttl_ms: int, stale_ms: int) -> int:
    """Give a task that waits for a person the timers after which it is stale, and ends."""
    if await guarded("tasks", store.call, "HGET", task.header, "status") != b"waiting":
        return 0
    now = await guarded("clock", store.clock)
    await guarded("tasks", store.call, "HSETNX", task.header, "waiting_at", now)
    given = 0
    for kind, ms in (("wait", wait_ttl_ms), ("stale", stale_ms)):
        args: list[Argument] = [f"{kind} {task.actor}", ms, ""]
        given += await guarded("tasks", store.run, "add_timer", [timers(task.shard), task.header], args)
    return int(given > 0)
