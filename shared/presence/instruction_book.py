"""The instructions that a process knows, by name: of the file, registered, of the tool-workers' plugins, built in."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from time import monotonic

from redis.exceptions import RedisError

from pentad.contracts.instructions import Instruction
from pentad.shared.errors import OutageError
from pentad.shared.instructions.instruction_list import all_instructions
from pentad.shared.presence.published import INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_INSTRUCTIONS, Registered
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

_EVERY_S = 1.0
_MIN_LOOKUP_INTERVAL_S = 0.2
"""Seconds between two looks for unknown names among the instructions of plugins."""
_say = ThrottledLog(logging.getLogger(__name__))


class InstructionBook:
    """Hands out instructions as they are now; a task keeps the version that it began with.

    What was found last stays in use while Redis is away. ``file``: the instructions of the file.
    """

    def __init__(self, store: Store, file: Iterable[Instruction] = ()) -> None:
        self._store, self._file = store, tuple(file)
        self._raw: object = None
        self._published: Mapping[str, Instruction] = {}
        self._registered: Registered[Instruction] | None = None
        self._read_at = float("-inf")
        self._known = self._merged()

    async def known(self, wanted: str | None = None) -> Mapping[str, Instruction]:
        """Return all instructions by name: the same mapping until one changes. ``wanted``: a name to look for.

        Raises ``OutageError`` only for a name that is looked for.
        """
        if wanted is not None and wanted not in self._known:
            await self._read(plugins=monotonic() - self._read_at > _MIN_LOOKUP_INTERVAL_S)
        return self._known

    def use_file(self, file: Iterable[Instruction]) -> None:
        """Take other instructions of the file."""
        self._file = tuple(file)
        self._known = self._merged()

    async def follow(self) -> None:
        """Read what has changed, for ever."""
        while True:
            try:
                await self._read()
            except (OutageError, RedisError) as error:
                _say.warning("book", "the instructions cannot be read, those known stay in use: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def _read(self, *, plugins: bool = True) -> None:
        changed = plugins and await self._read_published()
        version = None if self._registered is None else self._registered.version
        newer = await REGISTERED_INSTRUCTIONS.newer(self._store, version)
        if newer is not None:
            self._registered = newer
        if changed or newer is not None:
            self._known = self._merged()

    async def _read_published(self) -> bool:
        """Read the plugins' instructions; returns whether they have changed."""
        raw = await INSTRUCTIONS.fetch(self._store)
        self._read_at = monotonic()
        if raw == self._raw:
            return False
        self._published, self._raw = INSTRUCTIONS.parse(raw, await self._store.clock()), raw
        return True

    def _merged(self) -> Mapping[str, Instruction]:
        registered = self._registered.entries if self._registered is not None else ()
        found = all_instructions(self._file, registered, self._published.values())
        return {name: each.instruction for name, each in found.items()}
