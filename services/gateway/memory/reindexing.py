"""Reindexing: after a change of the embedding model the memory is embedded again page by page, and then switched.

An archiver does the work: it is asked to remember each task again of which the collection of the model in use has no
point yet. So a page may be requested again at any time, and the next request continues after a crash.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import DEFAULT_TENANT, is_identifier, shard_in, shard_of
from pentad.contracts.streams import REMEMBER
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid
from pentad.shared import metrics
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.current_collection import CURRENT_ALIAS, adopt_current
from pentad.shared.memory.nodes import reembedded_node_point
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND, TASK_KIND
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import Owner
from pentad.shared.presence.announcements import memory_wait
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_PAGE = 500
"""Tasks that one request looks at."""
_NODES = 64
"""Nodes that are embedded together."""
_POINT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSION = "memory"
_CACHE = "memory reindex"
"""Owner of the vectors that are cached here. No user or session has this name, because their names have no spaces."""
_MAX_LISTED_TENANTS = 8
"""Tenants whose missing data is listed in an error."""
_SWITCH_ADVICE = (
    "Have it embedded (`pentad memory reindex`, or `queue`); what has no record cannot be: `--force` (`force`) "
    "lets the new one count without it, and keeps the other one"
)


@immutable
class Reindexed:
    """The result of one request to reindex."""

    collection: str
    """Name of the collection of the model in use."""
    current: str
    """Name of the collection that searches use."""
    tasks: int
    """Number of tasks on this page."""
    left: int
    """Number of these tasks that the model in use has not embedded."""
    next: str | None
    """Cursor of the next page; None if this was the last."""
    kept: str | None = None
    """Name of the previous collection if it was not removed, because it has more than the current one."""
    waits_for: str | None = None
    """Reason why archivers do not embed the remaining tasks now."""


class Reindexing:
    """Reindexes the memory of all tenants that the current collection has, with or without a key at this gateway.

    Raises ``OutageError`` if a store is unavailable, ``ProblemError`` for a wrong value or if no model answers.
    """

    def __init__(self, store: Store, vectors: Vectors, embedder: Embedder, shards: int) -> None:
        self._store, self._vectors, self._embedder, self._shards = store, vectors, embedder, shards

    async def page(self, cursor: str | None, *, queue: bool) -> Reindexed:
        """Look at the next tasks of the current collection. ``queue``: have the remaining ones embedded."""
        begin, after = _place(cursor)
        fresh, current = await self._both()
        tenants = [] if fresh == current else await self._vectors.tenants(current)
        tenants = [tenant for tenant in tenants if tenant >= begin]
        if not tenants:
            return Reindexed(fresh, current, 0, 0, None)
        owner = Owner(tenants[0])
        tasks, left, following = await self._compared(owner, fresh, current, after if tenants[0] == begin else None)
        for task in sorted(left) if queue else ():
            await self._remember(owner.tenant, task)
        if following is not None:
            beyond: str | None = f"{owner.tenant}:{following}"
        else:
            beyond = f"{tenants[1]}:" if len(tenants) > 1 else None
        waits_for = await memory_wait(self._store) if left else None
        return Reindexed(fresh, current, len(tasks), len(left), beyond, waits_for=waits_for)

    async def switch(self, *, force: bool = False) -> Reindexed:
        """Make the collection of the model in use the current one.

        The previous one is removed if the new one has, of each tenant, all tasks and no fewer segments and nodes; if it
        has not, nothing changes and ``ProblemError`` (409) is raised. ``force``: switch all the same; then the previous
        collection is kept, and memories that only it has are not found. Nodes of the graph are embedded here; a
        repeated request continues an interrupted one.
        """
        fresh, current = await self._both()
        if fresh == current:
            return Reindexed(fresh, fresh, 0, 0, None)
        lacking = await self._lacking(fresh, current)
        if lacking and not force:
            raise ProblemError(409, f"{current} stays the memory: {fresh} lacks {lacking}. {_SWITCH_ADVICE}")
        await self._vectors.switch(CURRENT_ALIAS, fresh)
        if not lacking:
            await self._vectors.drop(current)
        return Reindexed(fresh, fresh, 0, 0, None, current if lacking else None)

    async def _lacking(self, fresh: str, current: str) -> str:
        """Return what the collection of the model in use lacks, in words; '' if it lacks nothing."""
        lacking, counted = [], 0
        for tenant in await self._vectors.tenants(current):
            owner = Owner(tenant)
            await self._embed_nodes(owner, fresh, current)
            counted += await self._vectors.count(current, Selection(owner, Whose.ALL))
            tasks, segments = 0, 0
            after: str | None = None
            while True:
                page, left, after = await self._compared(owner, fresh, current, after)
                tasks += len(left)
                if not left:
                    segments += await self._fewer(owner, fresh, current, page)
                if after is None:
                    break
            nodes = await self._left_nodes(owner, fresh, current)
            numbers = ((tasks, "tasks"), (segments, "segments"), (nodes, "nodes"))
            if told := ", ".join(f"{number} {what}" for number, what in numbers if number):
                lacking.append(f"{told} of tenant {tenant}")
        whole = sum(each.points for each in await self._vectors.collections() if each.name == current)
        if whole > counted:  # somebody has written meanwhile, or a store has forgotten to list a tenant
            lacking.append(f"{whole - counted} points that were not compared")
        more = len(lacking) - _MAX_LISTED_TENANTS
        return "; ".join([*lacking[:_MAX_LISTED_TENANTS], *([f"and more of {more} tenants"] if more > 0 else [])])

    async def _compared(
        self, owner: Owner, fresh: str, current: str, after: str | None
    ) -> tuple[set[str], set[str], str | None]:
        """Return tasks of the current collection, those of them that the new one lacks, and the next page's position.

        Tasks are compared by their ids: in another version the points of the same task may have other ids.
        """
        chosen = Selection(owner, Whose.ALL, kinds=(TASK_KIND,))
        page = await self._vectors.scroll(current, chosen, _PAGE, after)
        tasks = {point.payload.task for point in page.points}
        there: set[str] = set()
        more: str | None = None
        while tasks:
            same = Selection(owner, Whose.ALL, kinds=(TASK_KIND,), tasks=tuple(sorted(tasks)))
            found = await self._vectors.scroll(fresh, same, _PAGE, more)
            there |= {point.payload.task for point in found.points}
            if (more := found.next) is None:
                break
        return tasks, tasks - there, page.next

    async def _fewer(self, owner: Owner, fresh: str, current: str, tasks: set[str]) -> int:
        """Return how many segments of these tasks the new collection lacks."""
        if not tasks:
            return 0
        said = Selection(owner, Whose.ALL, kinds=(SEGMENT_KIND,), tasks=tuple(sorted(tasks)))
        return max(0, await self._vectors.count(current, said) - await self._vectors.count(fresh, said))

    async def _left_nodes(self, owner: Owner, fresh: str, current: str) -> int:
        known = Selection(owner, Whose.ALL, kinds=(NODE_KIND,))
        return max(0, await self._vectors.count(current, known) - await self._vectors.count(fresh, known))

    async def _embed_nodes(self, owner: Owner, fresh: str, current: str) -> None:
        """Embed the nodes that the collection of the model in use lacks."""
        chosen, after = Selection(owner, Whose.ALL, kinds=(NODE_KIND,)), None
        asks = Requester(shard_of(DEFAULT_TENANT, _SESSION, self._shards), DEFAULT_TENANT, _SESSION, cached_for=_CACHE)
        while True:
            page = await self._vectors.scroll(current, chosen, _NODES, after)
            ids = tuple(point.id for point in page.points)
            there = {point.id for point in await self._vectors.get(fresh, Selection(owner, Whose.ALL, ids=ids))}
            left = [point for point in page.points if point.id not in there]
            if left:
                embedded = await self._embedded([point.payload.text for point in left], asks)
                made = [
                    reembedded_node_point(point, vector) for point, vector in zip(left, embedded.vectors, strict=True)
                ]
                await self._vectors.upsert(fresh, made)
            if (after := page.next) is None:
                return

    async def _both(self) -> tuple[str, str]:
        """Return the collection of the model in use, made if it is missing, and the current collection."""
        asks = Requester(shard_of(DEFAULT_TENANT, _SESSION, self._shards), DEFAULT_TENANT, _SESSION, cached_for=_CACHE)
        embedded = await self._embedded(["a"], asks)
        fresh = collection_name(embedded.model, len(embedded.vectors[0]))
        await self._vectors.prepare(fresh, len(embedded.vectors[0]))
        current = await adopt_current(self._vectors)
        return fresh, fresh if current is None else current.name

    async def _embedded(self, texts: Sequence[str], asks: Requester) -> Embedded:
        try:
            return await self._embedder.embed(texts, asks)
        except ModelFailed as error:
            raise busy(f"the embedding model in use does not answer: {error}", outage=True) from None

    async def _remember(self, tenant: str, task: str) -> None:
        shard = shard_in(task, self._shards)
        if shard is not None:
            data = WakeUp(actor=TaskKeys(shard, tenant, task).actor).to_json()
            await self._store.call("XADD", REMEMBER.key(shard), "*", "data", data)
            metrics.published.labels(REMEMBER.name, WakeUp.__name__).inc()


def read_reindexing(body: Mapping[str, Any]) -> tuple[str | None, bool, bool, bool]:
    """Read a request to reindex: cursor, ``queue``, ``switch``, ``force``. Raises ``ProblemError``."""
    cursor, flags = body.get("cursor"), [body.get(name, False) for name in ("queue", "switch", "force")]
    if not all(isinstance(flag, bool) for flag in flags):
        raise invalid("queue, switch and force: true or false is expected")
    if cursor is not None and not isinstance(cursor, str):
        raise _bad_cursor()
    queue, switch, force = flags
    return cursor, queue, switch, force


def _place(cursor: str | None) -> tuple[str, str | None]:
    """Return the tenant and the point at which a page begins."""
    if cursor is None:
        return "", None
    tenant, separator, after = cursor.partition(":")
    if not separator or not is_identifier(tenant) or (after and _POINT.fullmatch(after) is None):
        raise _bad_cursor()
    return tenant, after or None


def _bad_cursor() -> ProblemError:
    return invalid("cursor: the `next` of an earlier answer is expected")
