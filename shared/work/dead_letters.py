"""Dead letters: what is kept of an entry that was set aside, when one is, and how many are kept (law 8)."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from pentad.contracts.dead_letters import FOR_WHOM, DeadLetter, LetterKind, Link, named_in
from pentad.contracts.ids import is_external_id, may_be
from pentad.contracts.streams import DEAD, INBOUND_DEAD, TOOL_CALLS, Stream
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.errors import OutageError
from pentad.shared.keys import DAY_S, TaskKeys, attempts
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store, guarded
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.entry import Entry, printable
from pentad.shared.work.handler import Handler, SetAside

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

BODY_LIMIT = 1 << 20
"""Bytes of what was set aside that its dead letter keeps."""
_REASON_LIMIT = 4096
"""Characters of a reason that a dead letter keeps."""
_CUT_EVERY_S = 10.0
"""Seconds between two looks for letters that are too old or too many."""
_FIRST_TIME = 10**12
"""The number of an entry's id that can be a time in ms: of the year 2001."""
_LETTERS_PER_READ = 20
"""Letters that are read at once: each has up to a MiB."""


def make_letter(
    kind: LetterKind,
    stream: str,
    entry_id: str,
    body: Iterable[tuple[str, bytes]],
    *,
    reason: str,
    attempts: int,
    at: str,
    whom: Mapping[str, str | None],
    chain: Sequence[Link],
    clipped: bool = False,
) -> DeadLetter:
    """A dead letter. ``whom``: the ids that are known; what is not an id is left out. A long body is clipped.

    ``clipped``: this body is the beginning of a longer one.
    """
    kept, too_long = _clipped(body)
    named: dict[str, Any] = {name: value for name in FOR_WHOM if (value := whom.get(name)) and may_be(name, value)}
    return DeadLetter(
        kind=kind,
        stream=stream,
        entry_id=entry_id,
        reason=printable(reason[:_REASON_LIMIT].encode(errors="backslashreplace")),
        attempts=attempts,
        at=at,
        body=kept,
        clipped=clipped or too_long,
        chain=list(chain),
        **named,
    )


def _clipped(body: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], bool]:
    kept: dict[str, str] = {}
    left, clipped = BODY_LIMIT, False
    for name, value in body:
        shown = name[: min(left, 256)]
        kept[shown] = printable(value[: left - len(shown)])
        clipped = clipped or shown != name or len(value) > left - len(shown)
        left -= len(shown) + len(value)
        if left <= 0:
            return kept, True
    return kept, clipped


def letter_of_entry(
    stream: Stream, key: str, entry_id: str, fields: Iterable[tuple[bytes, bytes]], reason: str, attempts: int, at: str
) -> DeadLetter:
    """The dead letter of an entry, for whom its own JSON says."""
    named = [(printable(name), value) for name, value in fields]
    said = named_in(next((printable(value[:BODY_LIMIT]) for name, value in named if name == "data"), ""))
    kind: LetterKind = "call" if stream is TOOL_CALLS else "entry"
    return make_letter(
        kind, key, entry_id, named, reason=reason, attempts=attempts, at=at, whom=said, chain=_chain(said)
    )


def chain_of(*, message: str = "", task: str = "", cause: str = "", tool_call: str = "", entry: str = "") -> list[Link]:
    """The causes of a dead letter, in order; unknown ones, and those that are no id, are left out."""
    links = [Link(kind="message", id=message), Link(kind="task", id=task), Link(kind="cause", id=cause)]
    links += [Link(kind="call", id=tool_call), Link(kind="entry", id=entry)]
    return [link for link in links if is_external_id(link.id)]


def _chain(said: Mapping[str, str]) -> list[Link]:
    return chain_of(
        message=said.get("correlation_id", ""),
        task=said.get("task_id", ""),
        cause=said.get("causation_id", ""),
        tool_call=said.get("tool_call_id", ""),
        entry=said.get("event_id", ""),
    )


def count_letter(stream: Stream, what: str) -> None:
    """Count a dead letter that a script has written. ``what``: the type of the entry."""
    metrics.dead.labels(stream.name, what).inc()
    metrics.published.labels(stream.dead or "", DeadLetter.__name__).inc()


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


class DeadLetterLimits:
    """Keeps the streams of dead letters within `PENTAD_DEAD_MAXLEN` and `PENTAD_DEAD_TTL_S`. Every router does."""

    def __init__(self, store: Store, settings: Settings, shards: Sequence[int]) -> None:
        self._store, self._settings = store, settings
        self._streams = [INBOUND_DEAD.key(), *(DEAD.key(shard) for shard in shards)]

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.once()
            except (OutageError, RedisError) as error:
                _say.warning("waits", "dead letters are not bounded now: %s", error)
            await asyncio.sleep(_CUT_EVERY_S)

    async def once(self) -> None:
        """Drop what is too old, then what is too many."""
        oldest = max(0, await self._store.clock() - self._settings.pentad_dead_ttl_s * 1000)
        for key in self._streams:
            aged = await self._drop_older(key, oldest)
            if aged:
                line = "%d dead letters of %s were older than PENTAD_DEAD_TTL_S: dropped"
                _say.warning(f"age {key}", line, aged, key)
            surplus = await self._store.call("XTRIM", key, "MAXLEN", self._settings.pentad_dead_maxlen)
            if surplus:
                _say.error(f"number {key}", "%d dead letters of %s were over PENTAD_DEAD_MAXLEN: dropped", surplus, key)

    async def _drop_older(self, key: str, oldest: int) -> int:
        """Entries whose ids are times, and older than that: a producer's own ids may be no times at all."""
        dropped = 0
        while found := await self._store.call("XRANGE", key, _FIRST_TIME, f"({oldest}-0", "COUNT", _LETTERS_PER_READ):
            dropped += await self._store.call("XDEL", key, *(entry for entry, _ in found))
        return dropped
