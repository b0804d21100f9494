"""The instructions and graphs that a process knows, by name: of the file, registered, of plugins, built in."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Generic, TypeVar

from redis.exceptions import RedisError

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.instructions import Instruction
from pentad.shared.errors import OutageError
from pentad.shared.instructions.instruction_list import all_instructions, all_runnables
from pentad.shared.presence.published import GRAPHS, INSTRUCTIONS, Published
from pentad.shared.registries.registrations import REGISTERED_GRAPHS, REGISTERED_INSTRUCTIONS, Registered, Registrations
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_EVERY_S = 1.0
_MIN_LOOKUP_INTERVAL_S = 0.2
"""Seconds between two looks for unknown names among what plugins define."""
_say = ThrottledLog(logging.getLogger(__name__))

T = TypeVar("T", Instruction, GraphSpec)


class _Shelf(Generic[T]):
    """Instructions or graphs as they were last read: registered, and of plugins."""

    def __init__(self, registry: Registrations[T], plugins: Published[T]) -> None:
        self._registry: Registrations[T] = registry
        self._plugins: Published[T] = plugins
        self._read: Registered[T] | None = None
        self._raw: Sequence[bytes] | None = None
        self.published: Sequence[T] = ()

    @property
    def registered(self) -> Sequence[T]:
        return () if self._read is None else self._read.entries

    async def read_registered(self, store: Store) -> bool:
        """Read what is registered, and return whether it has changed."""
        newer = await self._registry.newer(store, None if self._read is None else self._read.version)
        if newer is None:
            return False
        self._read = newer
        return True

    async def read_published(self, store: Store) -> bool:
        """Read what plugins define, and return whether it has changed."""
        raw = await self._plugins.fetch(store)
        if raw == self._raw:
            return False
        parsed = self._plugins.parse(raw, await store.clock())
        self.published, self._raw = tuple(parsed.values()), raw
        return True


class InstructionBook:
    """Hands out instructions and graphs as they are now; a task keeps the version that it began with.

    What was found last stays in use while Redis is away. ``file``: the instructions and graphs of the file.
    """

    def __init__(self, store: Store, file: Iterable[Runnable] = ()) -> None:
        self._store, self._file = store, tuple(file)
        self._instructions = _Shelf(REGISTERED_INSTRUCTIONS, INSTRUCTIONS)
        self._graphs = _Shelf(REGISTERED_GRAPHS, GRAPHS)
        self._read_at = float("-inf")
        self._merge()

    async def known(self, wanted: str | None = None) -> Mapping[str, Instruction]:
        """Return all instructions by name: the same mapping until one changes. ``wanted``: a name to look for.

        An instruction in whose place a graph counts is there, too: services ask those that are built in by themselves.
        Raises ``OutageError`` only for a name that is looked for.
        """
        if wanted is not None and wanted not in self._known:
            await self._look()
        return self._known

    async def runnables(self, wanted: str | None = None) -> Mapping[str, Runnable]:
        """Return what messages may name, instructions and graphs, by name: of each name the one that counts.

        It is the same mapping until something changes. ``wanted``: a name to look for. Raises ``OutageError`` only for
        a name that is looked for.
        """
        if wanted is not None and wanted not in self._runnables:
            await self._look()
        return self._runnables

    def use_file(self, file: Iterable[Runnable]) -> None:
        """Take other instructions and graphs of the file."""
        self._file = tuple(file)
        self._merge()

    async def follow(self) -> None:
        """Read what has changed, for ever."""
        while True:
            try:
                await self._read()
            except (OutageError, RedisError) as error:
                _say.warning("book", "the instructions cannot be read, those known stay in use: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def _look(self) -> None:
        await self._read(plugins=monotonic() - self._read_at > _MIN_LOOKUP_INTERVAL_S)

    async def _read(self, *, plugins: bool = True) -> None:
        changed = False
        try:
            if plugins:
                changed |= await self._instructions.read_published(self._store)
                changed |= await self._graphs.read_published(self._store)
                self._read_at = monotonic()
            changed |= await self._instructions.read_registered(self._store)
            changed |= await self._graphs.read_registered(self._store)
        finally:
            if changed:  # also when Redis went away half-way: what was read is not read again
                self._merge()

    def _merge(self) -> None:
        instructions, graphs = self._instructions, self._graphs
        registered: list[Runnable] = [*instructions.registered, *graphs.registered]
        published: list[Runnable] = [*instructions.published, *graphs.published]
        file = [each for each in self._file if isinstance(each, Instruction)]
        known = all_instructions(file, instructions.registered, instructions.published)
        self._known = {name: each.runnable for name, each in known.items()}
        found = all_runnables(self._file, registered, published)
        self._runnables = {name: each.runnable for name, each in found.items()}
