"""The tasks of all tenants that have not ended, as far as can be told within some milliseconds, and who waits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass

from pentad.contracts.ids import is_identifier
from pentad.contracts.operations import LiveTask, TasksState, TenantTasks
from pentad.contracts.records import Task
from pentad.contracts.streams import IN_SHARDS, split_key
from pentad.shared.actors.headers import LIVE
from pentad.shared.actors.sessions import load_tasks
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, approvals, load, places, task_index
from pentad.shared.store.store import Argument, Command, Store

MAX_TENANTS, MAX_TASKS = 100, 100
"""Rows of each list."""
_MAX_KNOWN = 5_000
"""Tenants that are remembered."""
_MAX_INDEXES = 1_000
"""Indexes of tasks, of a tenant in a shard, that one reading looks at."""
_MAX_STATUSES = 400
"""Tasks whose status one reading looks at."""
_SCANNED_KEYS, _SCANS = 2_000, 3
"""Keys of the server that one step goes past in search of tenants, and steps of one reading."""
_PLACES_PIECE, _PLACES_PIECES = 1_000, 5
"""Counts of active tasks that are read of a shard at once, and how often."""
_MAX_TEXT_CHARS = 120
_MAX_ID_CHARS = 512
_INDEX = "tasks:"


@dataclass(slots=True)
class _Places:
    """The active tasks of a tenant, and those that wait for a place."""

    active: int = 0
    queued: int = 0


@immutable
class _Indexed:
    """A task of an index."""

    began: int
    task: str
    tenant: str
    shard: int


class LiveTasks:
    """Reads the active tasks of all tenants. Raises ``OutageError``.

    No key says which tenants there are. Those of API keys are known, those with active tasks are counted in Redis, and
    others are found by their indexes, some thousands of keys at each reading. ``tenants``: those that are known.
    """

    def __init__(self, store: Store, shards: int, tenants: Collection[str]) -> None:
        self._store, self._shards = store, range(shards)
        self._known = dict.fromkeys(sorted(tenants))
        self._cursor: Argument = 0

    async def read(self, now: int, left_out: dict[str, int]) -> tuple[TasksState, int]:
        """Return the tasks, and how many tool calls wait for a decision. ``now``: Redis's time in ms."""
        counts = await self._places()
        await self._find_tenants()
        self._remember(counts)
        tenants = sorted(self._known, key=lambda name: (-_of(counts, name).active - _of(counts, name).queued, name))
        looked_at = tenants[: min(MAX_TENANTS, max(1, _MAX_INDEXES // len(self._shards)))]
        if len(tenants) > len(looked_at):
            left_out["tenants"] = len(tenants) - len(looked_at)
        rows = await self._rows(looked_at, counts, now)
        live = await self._look(looked_at)
        newest = await self._told([task for task, _ in live[:MAX_TASKS]])
        actives, active = [task for task, status in live if status == "active"], sum(c.active for c in counts.values())
        if unseen := max(0, len(live) - MAX_TASKS) + max(0, active - len(actives)):
            left_out["tasks"] = unseen
        state = TasksState(
            active=active,
            queued=sum(each.queued for each in counts.values()),
            by_status=dict(Counter(status for _, status in live)),
            tenants=rows,
            newest=newest,
            oldest=next(iter(await self._told(actives[-1:])), None),
        )
        return state, sum(row.approvals for row in rows)

    async def _places(self) -> dict[str, _Places]:
        """Return how many active tasks each tenant has."""
        counts = dict[str, _Places]()
        for shard in self._shards:
            async for name, number in self._numbers(places(shard)):
                tenant = name.removeprefix("?").partition("/")[0]
                if name.startswith("?"):
                    counts.setdefault(tenant, _Places()).queued += number
                elif name == tenant:
                    counts.setdefault(tenant, _Places()).active += number
        return {tenant: each for tenant, each in counts.items() if is_identifier(tenant)}

    async def _numbers(self, key: str) -> AsyncIterator[tuple[str, int]]:
        cursor: Argument = 0
        for _ in range(_PLACES_PIECES):
            cursor, flat = await self._store.call("HSCAN", key, cursor, "COUNT", _PLACES_PIECE)
            for name, number in zip(flat[::2], flat[1::2], strict=True):
                yield name.decode(errors="replace"), int(number) if number.isdigit() else 0
            if cursor == b"0":
                return

    async def _find_tenants(self) -> None:
        """Look for tenants among the next keys of the server."""
        for _ in range(_SCANS):
            where = ("MATCH", IN_SHARDS.replace(":*", f":{_INDEX}*"), "COUNT", _SCANNED_KEYS, "TYPE", "zset")
            self._cursor, keys = await self._store.call("SCAN", self._cursor, *where)
            rests = [(split_key(key.decode(errors="replace")) or (0, ""))[1] for key in keys]
            self._remember(rest.removeprefix(_INDEX) for rest in rests if rest.startswith(_INDEX))
            if self._cursor == b"0":
                return

    def _remember(self, tenants: Iterable[str]) -> None:
        for tenant in tenants:
            if len(self._known) < _MAX_KNOWN and is_identifier(tenant):
                self._known[tenant] = None

    async def _rows(self, tenants: Sequence[str], counts: dict[str, _Places], now: int) -> list[TenantTasks]:
        places = [(tenant, shard) for tenant in tenants for shard in self._shards]
        decisions: list[Command] = [("ZCOUNT", approvals(shard, tenant), f"({now}", "+inf") for tenant, shard in places]
        messages: list[Command] = [("HGET", load(shard), f"tenant:{tenant}") for tenant, shard in places]
        found = await self._store.calls([*decisions, *messages])
        waiting, mail = Counter[str](), Counter[str]()
        for (tenant, _), number in zip(places, found[: len(places)], strict=True):
            waiting[tenant] += number
        for (tenant, _), raw in zip(places, found[len(places) :], strict=True):
            mail[tenant] += int(raw or 0)
        return [
            TenantTasks(
                tenant_id=tenant,
                active=_of(counts, tenant).active,
                queued=_of(counts, tenant).queued,
                approvals=waiting[tenant],
                messages=mail[tenant],
            )
            for tenant in tenants
        ]

    async def _look(self, tenants: Sequence[str]) -> list[tuple[_Indexed, str]]:
        """Return the newest tasks of these tenants that have not ended, with their statuses, the newest first.

        Each index has the same share of the looks.
        """
        where = [(tenant, shard) for tenant in tenants for shard in self._shards]
        each = max(1, _MAX_STATUSES // len(where))
        newest: list[Command] = [
            ("ZREVRANGE", task_index(shard, tenant), 0, each - 1, "WITHSCORES") for tenant, shard in where
        ]
        replies = await self._store.calls(newest)
        entries = [
            _Indexed(int(float(score)), name.decode(errors="replace"), tenant, shard)
            for (tenant, shard), flat in zip(where, replies, strict=True)
            for name, score in zip(flat[::2], flat[1::2], strict=True)
        ]
        entries = sorted((one for one in entries if is_identifier(one.task)), key=lambda one: (-one.began, one.task))
        entries = entries[:_MAX_STATUSES]
        statuses = await self._store.calls(
            [("HGET", TaskKeys(one.shard, one.tenant, one.task).header, "status") for one in entries]
        )
        told = [(status or b"").decode(errors="replace") for status in statuses]
        return [(one, status) for one, status in zip(entries, told, strict=True) if status in LIVE]

    async def _told(self, tasks: Sequence[_Indexed]) -> list[LiveTask]:
        groups: dict[tuple[int, str], list[str]] = {}
        for one in tasks:
            groups.setdefault((one.shard, one.tenant), []).append(one.task)
        loaded = await asyncio.gather(
            *(load_tasks(self._store, shard, tenant, ids) for (shard, tenant), ids in groups.items())
        )
        headers = {each.task_id: each for found in loaded for each in found if each is not None}
        return [_live(headers[one.task].describe(), one.tenant) for one in tasks if one.task in headers]


def _of(counts: dict[str, _Places], tenant: str) -> _Places:
    return counts.get(tenant) or _Places()


def _live(task: Task, tenant: str) -> LiveTask:
    waiting = ", ".join(task.waiting_for_tools or task.waiting_for)
    return LiveTask(
        task_id=task.task_id,
        tenant_id=tenant,
        session_id=task.session_id[:_MAX_ID_CHARS],
        status=task.status,
        goal=task.goal[:_MAX_TEXT_CHARS],
        instruction=task.instruction[:_MAX_TEXT_CHARS],
        created_at=task.created_at,
        updated_at=task.updated_at,
        steps=task.steps,
        waiting_for=waiting[:_MAX_TEXT_CHARS] or None,
    )
