"""How much was written to the stores of the memory, kept beside them in Redis: what is missing from them shows.

What was found last is compared with what is found now. Points go by removals that are told ahead (`Removals`); a graph
says itself what was written to it and removed, and which store it is. What is missing otherwise is a loss: it stays
told until the memory was rebuilt, whatever is written meanwhile. Where nothing was kept, as by an earlier version,
nothing is missing.
"""

import json
from collections.abc import Mapping
from typing import Any

from pentad.shared.graph.knowledge import GraphCondition
from pentad.shared.immutable import immutable
from pentad.shared.keys import MEMORY_COUNTS
from pentad.shared.store.store import Store

VECTORS, GRAPH = "vectors", "graph"
"""The two stores, as what is wrong is told of them."""
REBUILD_COMMAND = "`pentad memory rebuild`"
REBUILD = f"run {REBUILD_COMMAND}, which writes it anew from the records and the tasks in Redis"
"""What to do about it."""
MEND = (
    f"run {REBUILD_COMMAND}, which sets aside what cannot be read and writes it anew from the records and the tasks "
    "in Redis"
)
"""What to do about a store that cannot be read."""
_POINTS, _REMOVED, _LOST, _UNREADABLE = "points ", "removed ", "lost ", "unreadable "
"""Begin the fields, each with what it is of."""
_UNDER_WAY_MS = 15_000
"""How long a removal may take that was told; a call to a store has ten seconds."""
_EXPLAINED = 16
"""Points that may be missing without a loss: of writers that count nothing, in a rollout."""
_EXPLAINED_SHARE = 0.01
"""Of all of them, likewise."""


Kept = Mapping[str, str]
"""The hash as it is."""


@immutable
class Damage:
    """What is wrong with a store of the memory."""

    store: str
    """`VECTORS` or `GRAPH`."""
    what: str
    do: str


class MemoryCounts:
    """Reads and keeps them. All raise ``OutageError`` while Redis is away."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def removing(self, collection: str, number: int) -> None:
        """So many points of a collection, at most, are about to be removed."""
        await self._store.call("HINCRBY", MEMORY_COUNTS, f"{_REMOVED}{collection}", number)

    async def kept(self) -> Kept:
        """What is kept: to be read ahead of what it is compared with, for others write meanwhile."""
        raw = await self._store.call("HGETALL", MEMORY_COUNTS)
        pairs = zip(raw[::2], raw[1::2], strict=True)
        return {field.decode(): value.decode("utf-8", "replace") for field, value in pairs}

    async def compare_points(self, before: Kept, found: Mapping[str, int]) -> None:
        """Compare how many points each collection has, and keep it. A loss is told from now on.

        ``before``: what was kept before ``found`` was read.
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
        """The same for the graph."""
        raw = before.get(GRAPH)
        last = GraphCondition(**json.loads(raw)) if raw is not None else None
        if (loss := graph_loss(last, now)) is not None:
            await self._lose(GRAPH, loss)
        elif f"{_LOST}{GRAPH}" not in await self.kept():
            await self._keep_graph(now)

    async def unreadable(self, store: str, why: str | None) -> None:
        """Tell that a store cannot be read, and why; None: it can be, as far as is known."""
        field = f"{_UNREADABLE}{store}"
        if why is None:
            await self._store.call("HDEL", MEMORY_COUNTS, field)
        else:
            await self._store.call("HSET", MEMORY_COUNTS, field, why)

    async def rebuilt(self, found: Mapping[str, int], graph: GraphCondition) -> None:
        """The memory was rebuilt: what it has now is what was written to it."""
        await self._keep_points(found, await self.kept())
        await self._keep_graph(graph)
        await self._store.call(
            "HDEL", MEMORY_COUNTS, *(kind + store for kind in (_LOST, _UNREADABLE) for store in (VECTORS, GRAPH))
        )

    async def damages(self) -> list[Damage]:
        """What is wrong now."""
        return damages_in(await self.kept())

    async def is_done(self, what: str) -> bool:
        """Whether this was said to be done, by `done`: what is done once beside these stores."""
        return bool(await self._store.call("HEXISTS", MEMORY_COUNTS, what))

    async def done(self, what: str) -> None:
        """It need not be done again."""
        await self._store.call("HSET", MEMORY_COUNTS, what, "1")

    async def _lose(self, store: str, what: str) -> None:
        await self._store.call("HSETNX", MEMORY_COUNTS, f"{_LOST}{store}", what)

    async def _keep_points(self, found: Mapping[str, int], kept: Mapping[str, str]) -> None:
        """A removal that was told counts for a while: it may be under way still, and gone from the next number."""
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
    """What is missing from the graph, in words; None when nothing is. Pure."""
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
    """Nodes and edges that were written, not removed and not found; what is known of a loss that was made good stays
    counted."""
    return (graph.written or 0) - graph.removed - graph.found


def damages_in(kept: Mapping[str, Any]) -> list[Damage]:
    """What is wrong, from the hash as it is kept. Pure."""
    found = []
    for store in (VECTORS, GRAPH):
        if (why := kept.get(f"{_UNREADABLE}{store}")) is not None:
            what, _, do = str(why).rpartition(": ")
            found.append(Damage(store, what, do))
        elif (lost := kept.get(f"{_LOST}{store}")) is not None:
            found.append(Damage(store, str(lost), REBUILD))
    return found
