"""Tools, hooks, instructions and graphs of plugins, which tool-workers publish for the other services.

An item stays for a day after the last beat of a worker that has it. A tool goes sooner when workers of its queue beat
without it: then no worker has it any more.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from pydantic_core import to_json

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.hooks import HookSpec
from pentad.contracts.instructions import Instruction
from pentad.contracts.plain_json import read_json
from pentad.contracts.tools import ToolSpec
from pentad.shared.immutable import immutable
from pentad.shared.keys import DAY_S, GRAPHS_PUBLISHED, HOOKS_PUBLISHED, INSTRUCTIONS_PUBLISHED, TOOLS_REGISTRY
from pentad.shared.store.store import Argument, Store

log = logging.getLogger(__name__)

BEAT_S = 10.0
"""Seconds between two beats of a worker, which publish what it has again."""
SILENT_MS = 60_000
"""Milliseconds without a beat after which an item counts as one without a living worker."""
_MAX_CLOCK_LEAD_MS = 1_000
"""Milliseconds. A beat from further in the future was written before the clock stepped back."""

T = TypeVar("T", ToolSpec, Instruction, GraphSpec, HookSpec)


@immutable
class Beaten(Generic[T]):
    """A published item, and its last beat in ms of the server's clock."""

    item: T
    beat: int

    def alive(self, now: int) -> bool:
        """Whether a living worker has the item, as far as is known at this time."""
        return now - self.beat <= SILENT_MS


class Published(Generic[T]):
    """The published items of one kind, in a hash of their own.

    ``queue_of``: returns the queue of an item, whose workers have it. Without it no item goes before its day is over.
    """

    def __init__(self, key: str, kind: type[T], what: str, queue_of: Callable[[T], str] | None = None) -> None:
        self._key, self._what = key, what
        self._kind: type[T] = kind
        self._queue_of: Callable[[T], str] | None = queue_of

    async def publish(self, store: Store, items: Sequence[T]) -> None:
        """Publish these items with a beat of now."""
        if not items:
            return
        now = await store.clock()
        fields: list[Argument] = []
        for item in items:
            fields += (item.name, to_json({"spec": item.model_dump(mode="json"), "beat": now}))
        await store.call("HSET", self._key, *fields)
        await store.call("EXPIRE", self._key, DAY_S)

    async def forget_others(self, store: Store, items: Sequence[T]) -> None:
        """Remove all other items. A living worker that has one misses it within a second, and publishes it again."""
        others = {*await store.call("HKEYS", self._key)} - {item.name.encode() for item in items}
        if others:
            await store.call("HDEL", self._key, *sorted(others))

    async def withdraw(self, store: Store, names: Collection[str]) -> None:
        """Remove these. Another worker that lives and has one misses it within a second, and says it again."""
        if names:
            await store.call("HDEL", self._key, *sorted(names))

    async def names(self, store: Store) -> set[str]:
        """Return the names of all published items."""
        return {name.decode() for name in await store.call("HKEYS", self._key)}

    async def lost(self, store: Store, items: Sequence[T]) -> bool:
        """Whether some of these published items are missing: Redis was emptied, or has lost its last writes."""
        return bool(items) and None in await store.call("HMGET", self._key, *(item.name for item in items))

    async def read(self, store: Store) -> dict[str, T]:
        """Read the published items, by name."""
        raw = await self.fetch(store)
        return self.parse(raw, await store.clock()) if raw else {}

    async def fetch(self, store: Store) -> Sequence[bytes]:
        """Read the hash as it is, to be compared with an earlier reading."""
        raw: Sequence[bytes] = await store.call("HGETALL", self._key)
        return raw

    def parse(self, raw: Sequence[bytes], now: int) -> dict[str, T]:
        """Return the items of the hash at this time, in ms of the server's clock, by name."""
        return {name: beaten.item for name, beaten in self.beats(raw, now).items()}

    def beats(self, raw: Sequence[bytes], now: int) -> dict[str, Beaten[T]]:
        """Return the items of the hash at this time, each with its last beat, by name."""
        oldest = now - DAY_S * 1000
        found = [_by_now(beaten, now) for beaten in self._entries(raw) if beaten.beat >= oldest]
        newest: dict[str, int] = {}
        if self._queue_of is not None:
            for each in found:
                queue = self._queue_of(each.item)
                newest[queue] = max(each.beat, newest.get(queue, 0))
            found = [each for each in found if newest[self._queue_of(each.item)] - each.beat <= SILENT_MS]
        return {each.item.name: each for each in sorted(found, key=lambda each: each.item.name)}

    def _entries(self, raw: Sequence[bytes]) -> Iterator[Beaten[T]]:
        for value in raw[1::2]:
            try:
                entry = read_json(value)
                yield Beaten(self._kind(**entry["spec"]), int(entry["beat"]))
            except (ValueError, TypeError, KeyError) as error:
                log.warning("a published %s cannot be read and is left out: %s", self._what, type(error).__name__)


def _by_now(beaten: Beaten[T], now: int) -> Beaten[T]:
    """Make a beat from before the clock stepped back an old one: a living worker beats again within ten seconds."""
    return (
        beaten
        if beaten.beat <= now + _MAX_CLOCK_LEAD_MS
        else replace(beaten, beat=now - SILENT_MS + _MAX_CLOCK_LEAD_MS)
    )


TOOLS = Published(TOOLS_REGISTRY, ToolSpec, "tool", lambda tool: tool.queue)
INSTRUCTIONS = Published(INSTRUCTIONS_PUBLISHED, Instruction, "instruction")
HOOKS = Published(HOOKS_PUBLISHED, HookSpec, "hook")
GRAPHS = Published(GRAPHS_PUBLISHED, GraphSpec, "graph")
