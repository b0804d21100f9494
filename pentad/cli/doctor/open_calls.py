"""Read which tool calls wait for a tool-worker, and since when. Nothing in Redis is changed."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.streams import TOOL_CALLS

SILENT_MS = 1_500
"""A worker renews the lease of each call twice a second: one that has not done so for this long is gone or hangs."""
MAX_CALLS = 20
"""Calls of each kind that are read of a queue."""
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A tool call without its result."""

    tool: str
    """Name of its tool; empty for an entry that cannot be read."""
    task_id: str
    waits_s: float
    """Seconds since it was queued."""
    worker: str = ""
    """The worker that has taken it; empty while none has."""
    silent_s: float = 0.0
    """Seconds since that worker was last heard of."""


@dataclass(frozen=True, slots=True)
class ToolQueue:
    """The calls of one queue that wait."""

    key: str
    workers: int
    """Tool-workers that read it now."""
    open: int
    """Calls that are queued or taken."""
    untaken: tuple[WaitingCall, ...] = ()
    silent: tuple[WaitingCall, ...] = ()
    """Calls whose worker has fallen silent."""

    @property
    def is_known(self) -> bool:
        """Whether it is known of each call, or of as many as are read, that it waits."""
        return len(self.silent) + len(self.untaken) >= min(self.open, MAX_CALLS)


async def open_calls(redis: Any, keys: Iterable[str], silent_ms: int = SILENT_MS) -> tuple[ToolQueue, ...]:
    """Return the queues that have open calls.

    A worker that has just died cannot be told from one that lives. So where calls are taken this looks again, for
    ``silent_ms`` at most.
    """
    queues = [key for key in keys if await redis.exists(key)]
    for looks_left in range(round(silent_ms / 1000 / _POLL_S), -1, -1):
        found = [await _queue(redis, key, silent_ms) for key in queues]
        known = [queue for queue in found if queue.open]
        if not looks_left or all(queue.is_known for queue in known):
            break
        await asyncio.sleep(_POLL_S)
    return tuple(known)


async def _queue(redis: Any, key: str, silent_ms: int) -> ToolQueue:
    groups = [group for group in await redis.xinfo_groups(key) if group["name"] == TOOL_CALLS.group]
    if not groups:
        untaken = await _untaken(redis, key, "-")
        return ToolQueue(key, 0, await redis.xlen(key), untaken)
    (group,) = groups
    consumers = await redis.xinfo_consumers(key, group["name"])
    silent = await _silent(redis, key, group["name"], silent_ms)
    untaken = await _untaken(redis, key, f"({group['last-delivered-id']}")
    open_count = group["pending"] + (len(untaken) if group.get("lag") is None else group["lag"])
    return ToolQueue(key, sum(one["idle"] < silent_ms for one in consumers), open_count, untaken, silent)


async def _untaken(redis: Any, key: str, after: str) -> tuple[WaitingCall, ...]:
    now = await _now(redis)
    return tuple(_call(entry, fields, now) for entry, fields in await redis.xrange(key, after, "+", count=MAX_CALLS))


async def _silent(redis: Any, key: str, group: str, silent_ms: int) -> tuple[WaitingCall, ...]:
    now, found = await _now(redis), []
    for pending in await redis.xpending_range(key, group, "-", "+", MAX_CALLS, idle=silent_ms):
        entry = pending["message_id"]
        worker, silent_s = pending["consumer"], pending["time_since_delivered"] / 1000
        for _, fields in await redis.xrange(key, entry, entry):
            found.append(_call(entry, fields, now, worker, silent_s))
    return tuple(found)


async def _now(redis: Any) -> int:
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


def _call(entry: str, fields: dict[str, str], now: int, worker: str = "", silent_s: float = 0.0) -> WaitingCall:
    waits_s = max(0, now - int(entry.partition("-")[0])) / 1000
    try:
        command = ToolCallCommand.model_validate_json(fields.get("data", ""))
    except ValueError:
        return WaitingCall("", "", waits_s, worker, silent_s)
    return WaitingCall(command.tool, command.task_id or "", waits_s, worker, silent_s)
