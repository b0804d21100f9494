"""Actors whose wake-up is lost get a new one: deleted or trimmed by hand, with its stream, or with its consumer.

Nothing of ours loses one. But an actor gets no other while its header names one as current, so its mail would wait for
ever: now and then some of the boxes with mail are looked at.
"""

import logging

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, Stream
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.headers import read_session
from pentad.shared.keys import SessionKeys, TaskKeys, tag
from pentad.shared.store.store import Argument, Store

log = logging.getLogger(__name__)

_KEYS = 2000
"""Keys of the server that one round goes past: under a millisecond of its time."""


class LostWakeUps:
    """Looks after the actors of one shard's stream of wake-ups."""

    def __init__(self, store: Store, stream: Stream, shard: int, lease_ms: int) -> None:
        assert stream in (SESSION_WAKE, TASK_WAKE)
        self._store, self._shard, self._lease_ms = store, shard, lease_ms
        self._kind = SessionKeys if stream is SESSION_WAKE else TaskKeys
        self._begins = f"{tag(shard)}:{'session' if stream is SESSION_WAKE else 'task'}:"
        self._cursor: Argument = 0

    async def once(self) -> None:
        """One round over some of the keys; the next goes on from there."""
        # Actors have sorted sets for their mail, and for nothing else.
        where = ("MATCH", f"{self._begins}*", "COUNT", _KEYS, "TYPE", "zset")
        self._cursor, boxes = await self._store.call("SCAN", self._cursor, *where)
        for header in dict.fromkeys(key.decode().rpartition(":")[0] for key in boxes):
            tenant, _, name = header.removeprefix(self._begins).partition(":")
            actor = self._kind(self._shard, tenant, read_session(name.encode()))  # ids of tasks are their own names
            args: list[Argument] = [actor.group, actor.actor, self._lease_ms]
            if await self._store.run("rewake", [actor.header, actor.wake], args):
                count_wake_ups(actor.stream, 1)
                log.error("%s had lost its wake-up and was given a new one: was something deleted?", actor.actor)
