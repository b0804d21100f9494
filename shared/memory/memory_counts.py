"""Counts of what was written to the memory's stores, kept in Redis, so that missing data is noticed.

The last count is compared with the current one. Removals of points are announced ahead (`Removals`); a graph itself
counts what was written to it and removed, and has an identity. Anything else that is missing is a loss. It is reported
until the memory is rebuilt, whatever is written meanwhile. Where no counts exist, as under an earlier version, nothing
is missing.
"""

import json
from collections.abc import Mapping
from typing import Any

from pentad.shared.graph.knowledge import GraphCondition
from pentad.shared.immutable import immutable
from pentad.shared.keys import MEMORY_COUNTS
from pentad.shared.store.store import Store

VECTORS, GRAPH = "vectors", "graph"
"""Names of the two stores in reports of damage."""
REBUILD_COMMAND = "`pentad memory rebuild`"
REBUILD = f"run {REBUILD_COMMAND}, which writes it anew from the records and the tasks in Redis"
"""Advice for a loss."""
MEND = (
    f"run {REBUILD_COMMAND}, which sets aside what cannot be read and writes it anew from the records and the tasks "
    "in Redis"
)
"""Advice for a store that cannot be read."""
_POINTS, _REMOVED, _LOST, _UNREADABLE = "points ", "removed ", "lost ", "unreadable "
"""Prefixes of the fields of the hash."""
_UNDER_WAY_MS = 15_000
"""Milliseconds that an announced removal may take; a call to a store has ten seconds."""
_EXPLAINED = 16
"""Points that may be missing without a loss, because of writers that count nothing during a rollout."""
_EXPLAINED_SHARE = 0.01
"""Share of all points that may be missing without a loss."""


Kept = Mapping[str, str]
"""The hash of counts as it is stored."""


@immutable
class Damage:
    """Damage of a store of the memory."""

    store: str
    """Name of the store, `VECTORS` or `GRAPH`."""
    what: str
    do: str


class MemoryCounts:
    """Reads and writes the counts. All methods raise ``OutageError`` while Redis is unavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def removing(self, collection: str, number: int) -> None:
        """Announce that at most ``number`` points of a collection are about to be removed."""
        await self._store.call("HINCRBY", MEMORY_COUNTS, f"{_REMOVED}{collection}", number)

    async def kept(self) -> Kept:
        """Return the stored counts. Read them before the numbers to compare: others write meanwhile."""
        raw = await self._store.call("HGETALL", MEMORY_COUNTS)
        pairs = zip(raw[::2], raw[1::2], strict=True)
        return {field.decode(): value.decode("utf-8", "replace") for field, value in pairs}

    async def compare_points(self, before: Kept, found: Mapping[str, int]) -> None:
        """Compare the number of points of each collection, and store it. A loss is reported from now on.

        ``before``: the counts as they were before ``found`` was read.
        """
        kept = await self.kept()  # removals that were told until now explain what is gone by now
        lasts = {field.removeprefix(_POINTS): json.loads(before[field]) for field in before if _is_points(field)}
        losses = []
        for name in sorted(lasts.keys() | found.keys()):
            last, now = lasts.get(name, {}), found.get(name, 0)
            removed = int(kept.get(f"{_REMOVED}{name}", 0))
            had = int(last.get("found", 0))
            lost = had - now - (removed - int(last.get("removed", removed)))
            if lost > min(_EXPLAINED + _EXPLAINED_SHARE * had, had / 2):
                losses.append(f"{name} has {now} of {had} points")
        if losses:
            await self._lose(VECTORS, f"points are missing from the long-term memory: {', '.join(losses)}")
        elif f"{_LOST}{VECTORS}" not in kept:
            await self._keep_points(found, kept)

    async def compare_graph(self, before: Kept, now: GraphCondition) -> None:
        """Compare the condition of the graph, and store it. A loss is reported from now on."""
        raw = before.get(GRAPH)
        last = GraphCondition(**json.loads(raw)) if raw is not None else None
        if (loss := graph_loss(last, now)) is not None:
            await self._lose(GRAPH, loss)
        elif f"{_LOST}{GRAPH}" not in await self.kept():
            await self._keep_graph(now)

    async def unreadable(self, store: str, why: str | None) -> None:
        """Report that a store cannot be read, and why; None: it can, as far as is known."""
        field = f"{_UNREADABLE}{store}"
        if why is None:
            await self._store.call("HDEL", MEMORY_COUNTS, field)
        else:
            await self._store.call("HSET", MEMORY_COUNTS, field, why)

    async def rebuilt(self, found: Mapping[str, int], graph: GraphCondition) -> None:
        """Store what a rebuilt memory has as what was written to it, and drop all reports of damage."""
        await self._keep_points(found, await self.kept())
        await self._keep_graph(graph)
        await self._store.call(
            "HDEL", MEMORY_COUNTS, *(kind + store for kind in (_LOST, _UNREADABLE) for store in (VECTORS, GRAPH))
        )

    async def damages(self) -> list[Damage]:
        """Return the reported damages."""
        return damages_in(await self.kept())

    async def is_done(self, what: str) -> bool:
        """Whether `done` was called for this one-time task beside these stores."""
        return bool(await self._store.call("HEXISTS", MEMORY_COUNTS, what))

    async def done(self, what: str) -> None:
        """Remember that a one-time task is done."""
        await self._store.call("HSET", MEMORY_COUNTS, what, "1")

    async def _lose(self, store: str, what: str) -> None:
        await self._store.call("HSETNX", MEMORY_COUNTS, f"{_LOST}{store}", what)

    async def _keep_points(self, found: Mapping[str, int], kept: Mapping[str, str]) -> None:
        """Store the numbers of points. An announced removal counts for a while, since it may still be running."""
        now, fields = await self._store.clock(), list[str]()
        for name, number in found.items():
            removed = int(kept.get(f"{_REMOVED}{name}", 0))
            last = json.loads(kept.get(f"{_POINTS}{name}", "{}")) or {"removed": removed, "seen": removed, "at": now}
            if abs(now - last["at"]) > _UNDER_WAY_MS:
                last = {"removed": last["seen"], "seen": removed, "at": now}
            fields += [f"{_POINTS}{name}", json.dumps(last | {"found": number})]
        if fields:
            await self._store.call("HSET", MEMORY_COUNTS, *fields)
        gone = [field for field in kept if _is_points(field) and field.removeprefix(_POINTS) not in found]
        if gone:
            await self._store.call("HDEL", MEMORY_COUNTS, *gone)

    async def _keep_graph(self, now: GraphCondition) -> None:
        told = {"identity": now.identity, "written": now.written, "removed": now.removed, "found": now.found}
        await self._store.call("HSET", MEMORY_COUNTS, GRAPH, json.dumps(told))


def _is_points(field: str) -> bool:
    return field.startswith(_POINTS)


def graph_loss(last: GraphCondition | None, now: GraphCondition) -> str | None:
    """Describe what is missing from the graph; None when nothing is. Pure."""
    if last is not None and last.identity != now.identity and now.found < last.found:
        return f"the graph is another one than was written: it has {now.found} of {last.found} nodes and edges"
    if now.written is None:
        return None
    same = last if last is not None and last.identity == now.identity else None
    if same is not None and same.written is not None and now.written < same.written:
        return f"the graph is as it was earlier: it knows of {now.written} of {same.written} writes"
    known = _missing(same) if same is not None else 0
    if _missing(now) > known:
        whole = now.found + _missing(now) - known
        return f"nodes or edges are missing from the graph: it has {now.found} of {whole}"
    return None


def _missing(graph: GraphCondition) -> int:
    """Return the number of nodes and edges that were written, not removed, and not found.

    A known loss stays counted after it was repaired.
    """
    return (graph.written or 0) - graph.removed - graph.found


def damages_in(kept: Mapping[str, Any]) -> list[Damage]:
    """Return the damages that the stored hash reports. Pure."""
    found = []
    for store in (VECTORS, GRAPH):
        if (why := kept.get(f"{_UNREADABLE}{store}")) is not None:
            what, _, do = str(why).rpartition(": ")
            found.append(Damage(store, what, do))
        elif (lost := kept.get(f"{_LOST}{store}")) is not None:
            found.append(Damage(store, str(lost), REBUILD))
    return found
