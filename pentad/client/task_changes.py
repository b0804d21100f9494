"""The task list, again at each change: of a session by its events, of a tenant by asking at intervals."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from pentad.client.feed import Feed, Notice, backoff, position
from pentad.client.gateway import Address
from pentad.client.inspection import Inspection
from pentad.contracts.events import EPHEMERAL, Snapshot
from pentad.contracts.memories import MemoryStats
from pentad.contracts.records import ShownStatus, Task
from pentad.errors import Busy, GatewayUnreachable, NotFound

T = TypeVar("T")


class Observed(list[Task]):
    """A list of tasks, and beside it what the memory holds."""

    memory: MemoryStats | None = None
    """The memory's figures; None where they are not asked for, and while the memory is unavailable."""


INTERVAL_S = 1.0
"""Seconds between two looks at a tenant's list."""
_LEAST_INTERVAL_S = 0.1
_TOGETHER_S = 0.05
"""Events that come within this time of each other are one change."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Which tasks, how many at most, and for how long a gateway that is gone is asked again."""

    status: ShownStatus | None
    limit: int
    patience_s: float
    notice: Notice | None

    def chosen(self, tasks: list[Task]) -> list[Task]:
        """Return the tasks that are watched."""
        return [task for task in tasks if self.status in (None, task.status)][: self.limit]

    async def again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of a gateway that may be away for a while. Raises ``ClientError`` when it stays away."""
        lost_at, failures = time.monotonic(), 0
        while True:
            try:
                return await ask()
            except (GatewayUnreachable, Busy) as error:
                if time.monotonic() - lost_at > self.patience_s:
                    raise
                if self.notice is not None:
                    self.notice(f"{error}: trying again")
                await asyncio.sleep(min(backoff(failures), self.patience_s))
                failures += 1


async def alone(lists: AsyncGenerator[list[Task], None]) -> AsyncGenerator[Observed, None]:
    """The lists, and nothing beside."""
    async with aclosing(lists) as found:
        async for tasks in found:
            yield Observed(tasks)


async def with_memory(
    lists: AsyncGenerator[list[Task], None], inspection: Inspection, interval_s: float
) -> AsyncGenerator[Observed, None]:
    """The lists, each with the figures of the memory, and again when these have changed. Raises ``ClientError``."""
    async with aclosing(lists) as found:
        tasks, stats = await anext(found), await _stats(inspection)
        interval_s = max(_LEAST_INTERVAL_S, interval_s)
        look_at = time.monotonic() + interval_s
        coming = asyncio.ensure_future(anext(found))
        try:
            while True:
                shown = Observed(tasks)
                shown.memory = stats
                yield shown
                before = tasks, stats
                while (tasks, stats) == before:
                    await asyncio.wait({coming}, timeout=max(0.0, look_at - time.monotonic()))
                    if coming.done():
                        tasks, coming = coming.result(), asyncio.ensure_future(anext(found))
                    if time.monotonic() >= look_at:  # and not at each change: a busy session has many a second
                        stats, look_at = await _stats(inspection), time.monotonic() + interval_s
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _stats(inspection: Inspection) -> MemoryStats | None:
    """Return the memory's figures; None while it is unavailable, for the tasks are shown all the same."""
    try:
        return await inspection.memory_stats()
    except (GatewayUnreachable, Busy):
        return None


async def of_tenant(inspection: Inspection, watching: Watching, interval_s: float) -> AsyncGenerator[list[Task], None]:
    """The list of all sessions. Raises ``ClientError``, at once when nobody answers the first time."""

    async def look() -> list[Task]:
        return await inspection.tasks(watching.status, limit=watching.limit)

    tasks = await look()
    while True:
        yield tasks
        before = tasks
        while tasks == before:
            await asyncio.sleep(max(_LEAST_INTERVAL_S, interval_s))
            tasks = await watching.again(look)


async def of_session(
    inspection: Inspection, watching: Watching, address: Address, session_id: str
) -> AsyncGenerator[list[Task], None]:
    """The list of one session. Raises ``ClientError``, at once when nobody answers the first time."""
    here = await position(address, session_id)  # before the tasks: what changes from now on is told
    tasks = {task.task_id: task for task in await inspection.tasks(session_id=session_id, limit=watching.limit)}
    news = _News()
    feed = Feed(address, session_id, [], after=here, notice=watching.notice, patience_s=watching.patience_s)
    following = asyncio.create_task(news.follow(feed))
    following.add_done_callback(lambda _: news.there.set())
    shown: list[Task] | None = None
    try:
        while True:
            if (now := watching.chosen([*tasks.values()])) != shown:
                yield (shown := now)
            changed = await news.awaited()
            if following.done():
                following.result()
            tasks = await watching.again(partial(_renewed, inspection, tasks, changed, session_id, watching.limit))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _renewed(
    inspection: Inspection, tasks: dict[str, Task], changed: set[str] | None, session_id: str, limit: int
) -> dict[str, Task]:
    """The tasks with what has changed, the newest first; ``changed`` None: nobody knows what did."""
    if changed is None:
        return {task.task_id: task for task in await inspection.tasks(session_id=session_id, limit=limit)}
    found = [await _task(inspection, name) for name in sorted(changed)]
    renewed = tasks | {task.task_id: task for task in found if task is not None}
    newest = sorted(renewed.values(), key=lambda task: task.created_at, reverse=True)
    return {task.task_id: task for task in newest[:limit]}


async def _task(inspection: Inspection, task_id: str) -> Task | None:
    try:
        return await inspection.task(task_id)
    except NotFound:
        return None


@dataclass(slots=True)
class _News:
    """Which tasks a session's events were about since they were looked at last."""

    there: asyncio.Event = field(default_factory=asyncio.Event)
    changed: set[str] = field(default_factory=set)
    gap: bool = False
    """Events are gone: any task may have changed."""

    async def follow(self, feed: Feed) -> None:
        """Read the events until cancelled. Raises ``ClientError``."""
        async with aclosing(feed.received()) as events:
            async for received in events:
                event = received.event
                if isinstance(event, Snapshot):
                    self.gap = True
                elif event.task_id is not None and event.type not in EPHEMERAL:
                    self.changed.add(event.task_id)
                else:
                    continue
                self.there.set()

    async def awaited(self) -> set[str] | None:
        """Wait for news and take it; None when there was a gap."""
        await self.there.wait()
        await asyncio.sleep(_TOGETHER_S)
        self.there.clear()
        changed = None if self.gap else self.changed
        self.changed, self.gap = set(), False
        return changed
