"""The memory is embedded anew after a change of the embedding model: page by page, and then the new one counts.

An archiver does the work: it is asked to remember each task again, of which the collection of the model in use has no
point yet. So a page may be asked for again at any time, and whoever is killed is gone on for by the next who asks.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import DEFAULT_TENANT, shard_in, shard_of
from pentad.contracts.streams import REMEMBER
from pentad.services.gateway.problems import ProblemError, busy, invalid
from pentad.shared import metrics
from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.requester import Requester
from pentad.shared.embedder.vectors import Embedded
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.current import CURRENT, adopt
from pentad.shared.memory.node_points import node_point_anew
from pentad.shared.memory.points import NODE_KIND, TASK_KIND
from pentad.shared.models.ports import ModelFailed
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.naming import collection_name
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_PAGE = 500
"""Tasks that one request looks at."""
_NODES = 64
"""Nodes that are embedded at once."""
_CURSOR = re.compile(r"(\d{1,6}):([0-9a-f-]{36})?")
_SESSION = "memory"


@immutable
class Reindexed:
    """How far it is."""

    collection: str
    """Of the model in use."""
    current: str
    """The one that counts."""
    tasks: int
    """Of this page."""
    left: int
    """Those of them that the model in use has not embedded."""
    next: str | None
    """Where the next page begins; None: this was the last."""


class Reindexing:
    """Raises ``OutageError`` while a store is away, ``ProblemError`` for a wrong value or while no model answers."""

    def __init__(
        self, store: Store, vectors: Vectors, embedder: Embedder, shards: int, tenants: Collection[str]
    ) -> None:
        self._store, self._vectors, self._embedder, self._shards = store, vectors, embedder, shards
        self._tenants = sorted(tenants)

    async def page(self, cursor: str | None, *, queue: bool) -> Reindexed:
        """Look at the next tasks of the collection that counts. ``queue``: have those that are left embedded."""
        place, after = _place(cursor, len(self._tenants))
        fresh, current = await self._both()
        if fresh == current:
            return Reindexed(fresh, current, 0, 0, None)
        owner = Owner(self._tenants[place])
        tasks = Selection(owner, Whose.ALL, kinds=(TASK_KIND,))
        page = await self._vectors.scroll(current, tasks, _PAGE, after)
        ids = tuple(point.id for point in page.points)
        there = {point.id for point in await self._vectors.get(fresh, Selection(owner, Whose.ALL, ids=ids))}
        left = {point.payload.task for point in page.points if point.id not in there}
        for task in sorted(left) if queue else ():
            await self._remember(owner.tenant, task)
        following = f"{place}:{page.next}" if page.next else f"{place + 1}:" if place + 1 < len(self._tenants) else None
        return Reindexed(fresh, current, len({point.payload.task for point in page.points}), len(left), following)

    async def switch(self) -> Reindexed:
        """Let the collection of the model in use count from now on, and remove the one that did.

        Nodes of the graph are embedded here; what is cut off is gone on with when it is asked for again.
        """
        fresh, current = await self._both()
        if fresh != current:
            for tenant in self._tenants:
                await self._embed_nodes(Owner(tenant), fresh, current)
            await self._vectors.switch(CURRENT, fresh)
            await self._vectors.drop(current)
        return Reindexed(fresh, fresh, 0, 0, None)

    async def _embed_nodes(self, owner: Owner, fresh: str, current: str) -> None:
        """Points of nodes that the model in use has not embedded yet."""
        chosen, after = Selection(owner, Whose.ALL, kinds=(NODE_KIND,)), None
        asks = Requester(shard_of(DEFAULT_TENANT, _SESSION, self._shards), DEFAULT_TENANT, _SESSION)
        while True:
            page = await self._vectors.scroll(current, chosen, _NODES, after)
            ids = tuple(point.id for point in page.points)
            there = {point.id for point in await self._vectors.get(fresh, Selection(owner, Whose.ALL, ids=ids))}
            left = [point for point in page.points if point.id not in there]
            if left:
                embedded = await self._embedded([point.payload.text for point in left], asks)
                made = [node_point_anew(point, vector) for point, vector in zip(left, embedded.vectors, strict=True)]
                await self._vectors.upsert(fresh, made)
            if (after := page.next) is None:
                return

    async def _both(self) -> tuple[str, str]:
        """The collection of the model in use, which is there, and the one that counts."""
        asks = Requester(shard_of(DEFAULT_TENANT, _SESSION, self._shards), DEFAULT_TENANT, _SESSION)
        embedded = await self._embedded(["a"], asks)
        fresh = collection_name(embedded.model, len(embedded.vectors[0]))
        await self._vectors.prepare(fresh, len(embedded.vectors[0]))
        current = await adopt(self._vectors)
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


def read_reindexing(body: Mapping[str, Any]) -> tuple[str | None, bool, bool]:
    """As a client writes it: cursor, ``queue``, ``switch``. Raises ``ProblemError``."""
    cursor, queue, switch = body.get("cursor"), body.get("queue", False), body.get("switch", False)
    if not isinstance(queue, bool) or not isinstance(switch, bool):
        raise invalid("queue and switch: true or false is expected")
    if cursor is not None and not isinstance(cursor, str):
        raise _bad_cursor()
    return cursor, queue, switch


def _place(cursor: str | None, tenants: int) -> tuple[int, str | None]:
    if cursor is None:
        return 0, None
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[1]) >= tenants:
        raise _bad_cursor()
    return int(found[1]), found[2]


def _bad_cursor() -> ProblemError:
    return invalid("cursor: the `next` of an earlier answer is expected")
