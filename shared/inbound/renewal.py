"""The ids of the inbound stream: whether they are still in step with the clock, and how the stream begins again."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from secrets import token_hex
from typing import Any

from redis.exceptions import ResponseError

from pentad.contracts.streams import INBOUND
from pentad.shared.errors import OutageError
from pentad.shared.keys import FIRST_ID, INBOUND_LEASE, NEW_INBOUND
from pentad.shared.store.script import read_scripts
from pentad.shared.store.store import Store

_MAX_CLOCK_LEAD_MS = 60_000
"""Milliseconds by which clocks of servers differ at most, and step back at most."""
_LOOK_EVERY_S = 5.0
_LAST = (1 << 64) - 1
REMEDY = "run `pentad inbound renew`"
"""The remedy for ids that are used up or ahead of the clock."""


def exhausted(last_id: str) -> str | None:
    """Return why a stream with this last id takes no more entries, or None."""
    if last_id != f"{_LAST}-{_LAST}":
        return None
    return f"{INBOUND.key()} has no entry ids left, so it takes no message: {REMEDY}"


def ahead(last_id: str, now_ms: int) -> str | None:
    """Return how far a stream with this last id is ahead of the clock, or None.

    A producer has given an id of its own, or the clock has stepped back; Redis goes on from there. It works, until such
    ids run out.
    """
    days = (int(last_id.partition("-")[0]) - now_ms) / 86_400_000
    if days * 86_400_000 <= _MAX_CLOCK_LEAD_MS:
        return None
    far = f"{days:.0f} days" if days >= 1 else f"{days * 1440:.0f} minutes"
    why = "a producer gave its own, or the clock has stepped back"
    return f"the ids of {INBOUND.key()} are {far} ahead of the clock, because {why}: {REMEDY}"


@lru_cache(maxsize=1)
def _last_id() -> str:
    return read_scripts()["last_id"].body


async def last_id(ask: Callable[..., Awaitable[Any]]) -> str:
    """The last id that the inbound stream has given out; ``0-0`` when there is no stream. ``ask`` sends a command."""
    found: list[bytes] = await ask("EVAL", _last_id(), 1, INBOUND.key())
    return found[0].decode()


class IdsWatch:
    """Looks at the ids now and then, for readiness."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.full: str | None = None
        """Why the stream takes nothing."""
        self.early: str | None = None
        """How far it is ahead of the clock."""

    async def run(self) -> None:
        """Look for ever; an outage is waited out, and is told elsewhere."""
        while True:
            with suppress(OutageError, ResponseError):
                await self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once."""
        last = await last_id(self._store.call)
        self.full = exhausted(last)
        self.early = None if self.full else ahead(last, await self._store.clock())


async def renew(store: Store) -> int | None:
    """Replace the inbound stream; returns how many entries it still holds, None when there was no stream.

    In one script: nothing is lost or moved twice, whatever runs beside it. Raises ``OutageError``.
    """
    keys = [INBOUND.key(), NEW_INBOUND, INBOUND_LEASE]
    moved: int = await store.run("inbound_renew", keys, [INBOUND.group or "", token_hex(8), FIRST_ID])
    return None if moved < 0 else moved


async def foreign_groups(store: Store) -> list[str]:
    """Groups of others on the inbound stream: they do not go over when it is replaced."""
    names = [group[b"name"].decode(errors="replace") for group in await store.groups(INBOUND.key())]
    return [name for name in names if name != INBOUND.group]
