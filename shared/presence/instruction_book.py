"""The instructions that a process knows, by name: built in, and what the plugins of tool-workers define."""

import asyncio
import logging
from collections.abc import Mapping
from time import monotonic

from redis.exceptions import RedisError

from pentad.contracts.instructions import Instruction
from pentad.shared.errors import OutageError
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.presence.published import INSTRUCTIONS
from pentad.shared.seldom import Seldom
from pentad.shared.store.store import Store

_EVERY_S = 1.0
_AT_ONCE_S = 0.2
"""A name that is not known is looked for at once, but not more often than this."""
_say = Seldom(logging.getLogger(__name__))


class InstructionBook:
    """Hands out instructions as they are now; a task keeps the version that it began with.

    What was found last stays in use while Redis is away.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Mapping[str, Instruction] = BUILT_IN
        self._raw: object = None
        self._read_at = float("-inf")

    async def known(self, wanted: str | None = None) -> Mapping[str, Instruction]:
        """All of them, by name: the same mapping until one has changed. ``wanted``: is looked for if it is not there.

        Raises ``OutageError`` only for a name that is looked for.
        """
        if wanted is not None and wanted not in self._known and monotonic() - self._read_at > _AT_ONCE_S:
            await self._read()
        return self._known

    async def follow(self) -> None:
        """Read what has changed, for ever."""
        while True:
            try:
                await self._read()
            except (OutageError, RedisError) as error:
                _say.warning("book", "the instructions cannot be read, those known stay in use: %s", error)
            await asyncio.sleep(_EVERY_S)

    async def _read(self) -> None:
        raw = await INSTRUCTIONS.fetch(self._store)
        self._read_at = monotonic()
        if raw != self._raw:
            published = INSTRUCTIONS.parse(raw, await self._store.clock())
            self._known, self._raw = {**BUILT_IN, **published}, raw
