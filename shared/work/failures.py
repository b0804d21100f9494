"""Failures in one stream of one shard: counted, and set aside as dead letters when they go on (law 8)."""

import logging
from functools import partial

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD, Stream
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.errors import OutageError
from pentad.shared.keys import DAY_S, TaskKeys, attempts
from pentad.shared.store.store import Argument, Store, guarded
from pentad.shared.work.dead_letters import count_letter, letter_of_entry
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import Handler, SetAside

log = logging.getLogger(__name__)


class Failures:
    """Counts and dead letters. ``handler`` ends what waits for an entry, in the same act."""

    def __init__(self, store: Store, stream: Stream, key: str, shard: int, handler: Handler) -> None:
        assert stream.group is not None
        self._store, self._stream, self._key, self._shard = store, stream, key, shard
        self._group, self._handler = stream.group, handler

    async def set_aside(self, entry: Entry, reason: str, attempts_made: int) -> None:
        """Dead-letter an entry and acknowledge it, at once."""
        letter = await guarded("dead letter", partial(self._letter, entry, reason, attempts_made))
        buried = await guarded("dead letter", partial(self._bury, entry, letter))
        self.forget(entry)
        if buried:
            count_letter(self._stream, self._stream.carries[0].__name__)
        log.error("%s %s was set aside: %s", self._key, entry.id, reason)

    async def _bury(self, entry: Entry, letter: DeadLetter) -> bool:
        """Returns whether this entry's dead letter was written: none is of what was erased."""
        if await self._is_erased(letter):
            await self._store.call("XACK", self._key, self._group, entry.id)
            return False
        try:
            done = await self._handler.set_aside(entry, letter)
            if done is not SetAside.NOTHING:
                return done is SetAside.BURIED
        except OutageError:
            raise
        except Exception:  # what waits for it cannot be read either: the dead letter is all that is left to do
            log.exception("%s %s is set aside alone", self._key, entry.id)
        args: list[Argument] = [self._group, entry.id, letter.to_json()]
        written: int = await self._store.run("set_aside", [self._key, DEAD.key(self._shard)], args)
        return bool(written)

    async def _is_erased(self, letter: DeadLetter) -> bool:
        if letter.tenant_id is None or letter.task_id is None:
            return False
        return await is_erased(self._store, TaskKeys(self._shard, letter.tenant_id, letter.task_id))

    async def _letter(self, entry: Entry, reason: str, attempts_made: int) -> DeadLetter:
        found = await self._store.call("XRANGE", self._key, entry.id, entry.id)
        names = iter(found[0][1] if found else ())
        fields = zip(names, names, strict=True)
        now = await self._store.now()
        return letter_of_entry(self._stream, self._key, entry.id, fields, reason, attempts_made, now)

    async def count(self, entry: Entry, kind: str) -> int:
        """Count a failed attempt (``fail``) or a start without outcome (``start``) of an entry."""
        field = f"{self._key} {entry.id} {kind}"
        counted: int = await self._store.run("entry_count", [attempts(self._shard)], [field, DAY_S])
        return counted

    def forget(self, entry: Entry) -> None:
        """Remove an ended entry's counts: their hash lives as long as anything fails. What this misses goes with it."""
        fields = [f"{self._key} {entry.id} {kind}" for kind in ("fail", "start")]
        self._store.send("HDEL", attempts(self._shard), *fields)
