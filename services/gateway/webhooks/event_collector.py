"""Takes events of one shard's sessions and puts them on their way to webhooks: each once, in order, none left out.

What a webhook has had is a cursor in Redis for each session, which one script moves together with what it puts on its
way. So whoever is killed, or is not alone, leaves nothing out and doubles nothing. The doorbell tells which sessions
have news; after a start, a new connection or lost rings all sessions of tenants with webhooks are looked at.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EPHEMERAL, ErrorEvent
from pentad.contracts.ids import decoded_id, is_identifier, rfc3339, shard_of
from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.webhooks.followed import (
    FollowedCallbacks,
    FollowedTurn,
    RegisteredWebhooks,
)
from pentad.shared.events.feed import START, events_of, order
from pentad.shared.keys import SessionKeys, actor_parts, bell, session_index, waiting_webhooks
from pentad.shared.store.store import Argument, Store

MAX_WAITING = 10_000
"""Events that may wait for one webhook in one shard; further ones stay in their sessions as long as these keep them."""
MAX_WAITING_BYTES = 64 << 20
_EVENTS_PER_READ = 32
"""Events of a session that are read at once: one has up to a MiB."""
_COPIED_BYTES = 4 << 20
"""Bytes that one script puts on their way at most, but one event at least."""
_RINGS = 500
_SESSIONS_AT_ONCE = 16
_FOUND_AT_ONCE = 4
"""Sessions without news that are read beside those with news."""
_SESSIONS_PER_PAGE = 500
_FULL_S = 5.0
"""Seconds until a session is looked at again of which a webhook can take no more."""
_ARGUMENTS_PER_EVENT = 4
"""Arguments of the script for each event, its webhook aside."""
_READS_PER_TURN = 16
"""Readings of one session before others have their turn."""
_MAX_PASSED = 500
"""Events that are passed before the cursor moves though none of them was wanted."""
_MAX_REMEMBERED = 10_000
"""Sessions whose readers are remembered, so that their cursors need not be read."""
_CURSOR_S = 86_400
"""Seconds for which a cursor outlives the events of its session."""
_LAST = (1 << 64) - 1


@dataclass(slots=True)
class _Reader:
    """A webhook that reads a session."""

    webhook: Webhook
    cursor: bytes
    """Cursor as it is kept; empty before the first event."""
    position: bytes
    """Position of the last event that it has passed; it is ahead of the cursor where none of the events was wanted."""
    has_read: bool
    """Whether there was an event at the position."""
    passed: int = 0
    """Events between cursor and position."""
    follows: FollowedTurn | None = None


@dataclass(slots=True)
class _Sweep:
    """A look at all sessions of a tenant."""

    tenant: str
    since_ms: int
    first: int = 0
    """Place in the index of the first session that was not looked at."""


class EventCollector:
    """Collects the events of one shard. ``events_ttl_s``: how long sessions keep theirs."""

    def __init__(
        self, store: Store, shard: int, registered: RegisteredWebhooks, shards: int, events_ttl_s: int
    ) -> None:
        self._store, self._shard, self._registered, self._shards = store, shard, registered, shards
        self._callbacks = FollowedCallbacks(store, shard)
        self._ttl_s = events_ttl_s + _CURSOR_S
        self._heard: bytes | None = None
        self._known: frozenset[str] = frozenset()
        """Webhooks whose sessions were looked at."""
        self._news: dict[str, None] = {}
        """Actors of sessions with news."""
        self._found: dict[str, None] = {}
        """Actors of sessions that may have events of before: those with news go first."""
        self._sweeps = deque[_Sweep]()
        self._full: dict[str, float] = {}
        """Actors of sessions that are looked at again, by the loop's time of that."""
        self._readers_of: dict[str, dict[str, _Reader]] = {}
        """Readers of the sessions that were read last, by session and webhook."""

    def reset(self) -> None:
        """Begin anew: another may have collected meanwhile, or Redis knows less."""
        self._callbacks.clear()
        self._heard, self._known = None, frozenset()
        for known in (self._news, self._found, self._sweeps, self._full, self._readers_of):
            known.clear()

    async def collect(self) -> bool:
        """Take a part of what there is; returns whether there is more. Raises ``OutageError``."""
        self._mark(await self._callbacks.read_new())
        self._mark(await self._callbacks.look())
        await self._listen()
        await self._begin_sweeps()
        if self._sweeps and not self._found:
            await self._sweep(self._sweeps[0])
        self._mark_full()
        batch = [*list(self._news)[:_SESSIONS_AT_ONCE], *list(self._found)[:_FOUND_AT_ONCE]]
        await asyncio.gather(*map(self._collect, dict.fromkeys(batch)))
        return bool(self._news or self._found or self._sweeps)

    def _mark(self, actors: Sequence[str]) -> None:
        self._news |= dict.fromkeys(actors)

    def _mark_full(self) -> None:
        now = asyncio.get_running_loop().time()
        again = [actor for actor, at in self._full.items() if at <= now]
        for actor in again:
            del self._full[actor]
        self._mark(again)

    async def _listen(self) -> None:
        """Learn from the doorbell which sessions have news."""
        key = bell(self._shard)
        if self._heard is None:
            self._heard, _ = await self._store.run("last_id", [key], [])
            self._known = frozenset()
            return
        while True:
            found = await self._store.call("XRANGE", key, self._heard.decode(), "+", "COUNT", _RINGS)
            if self._heard != START and (not found or found[0][0] != self._heard):
                self._heard = None  # rings were cut off unheard, or lost
                return
            rings = [each for each in found if each[0] != self._heard]
            for _, fields in rings:
                self._ring(fields[1].decode(errors="replace"))
            if not rings:
                return
            self._heard = rings[-1][0]

    def _ring(self, actor: str) -> None:
        if self._callbacks.of(actor):
            self._news[actor] = None
            return
        try:
            tenant, session = actor_parts(actor)
        except ValueError:
            return
        if self._registered.of(tenant, session):
            self._news[actor] = None

    async def _begin_sweeps(self) -> None:
        """Begin to look at all sessions of webhooks that are new here, and have the shard reach their registration."""
        if self._heard is None:
            return
        new = [each for each in self._registered.all() if each.id not in self._known]
        self._known = self._registered.ids
        tenants = dict.fromkeys(each.tenant_id for each in new if each.session_id is None)
        self._sweeps = deque(each for each in self._sweeps if each.tenant not in tenants)
        for tenant in tenants:
            self._sweeps.append(_Sweep(tenant, min(each.created_ms for each in new if each.tenant_id == tenant)))
        for each in new:
            if each.session_id is not None and shard_of(each.tenant_id, each.session_id, self._shards) == self._shard:
                self._mark([SessionKeys(self._shard, each.tenant_id, each.session_id).actor])
        if new:  # the shard may be new, or of an earlier version, or have lost that time in a failover of its own
            await self._store.run("shard_time", [bell(self._shard)], [max(each.created_ms for each in new)])

    async def _sweep(self, sweep: _Sweep) -> None:
        """Mark some sessions of a tenant that have had events since its webhooks are registered."""
        index, last = session_index(self._shard, sweep.tenant), sweep.first + _SESSIONS_PER_PAGE - 1
        names = await self._store.call("ZREVRANGE", index, sweep.first, last)
        keys = [SessionKeys(self._shard, sweep.tenant, session) for session in map(_session, names) if session]
        ends = await asyncio.gather(*(self._store.run("last_id", [each.events], []) for each in keys))
        found = [each.actor for each, (end, _) in zip(keys, ends, strict=True) if order(end)[0] >= sweep.since_ms]
        self._found |= dict.fromkeys(found)
        sweep.first += _SESSIONS_PER_PAGE
        if len(names) < _SESSIONS_PER_PAGE:
            self._sweeps.popleft()

    async def _collect(self, actor: str) -> None:
        """Take what one session has. A webhook for which too much waits is left out for a while."""
        self._news.pop(actor, None)
        self._found.pop(actor, None)
        keys, left_out = SessionKeys(self._shard, *actor_parts(actor)), dict[str, bool]()
        try:
            for _ in range(_READS_PER_TURN):
                readers = [each for each in await self._readers(keys) if each.webhook.id not in left_out]
                if not readers:
                    break
                first = min((each.position for each in readers), key=order)
                await self._read(keys, [each for each in readers if each.position == first], left_out)
            else:
                self._found[actor] = None
        except BaseException:
            self._readers_of.pop(actor, None)
            self._news[actor] = None
            raise
        if any(left_out.values()):
            self._full[actor] = asyncio.get_running_loop().time() + _FULL_S

    async def _readers(self, keys: SessionKeys) -> list[_Reader]:
        """Return the webhooks of a session with how far each has come, from memory or as it is kept."""
        registered, turns = self._registered.of(keys.tenant, keys.session), self._callbacks.of(keys.actor)
        follows = {turn.webhook.id: turn for turn in turns}
        webhooks = {each.id: each for each in (*registered, *(turn.webhook for turn in turns))}
        known = self._readers_of.pop(keys.actor, {})
        if not webhooks.keys() <= known.keys():
            flat = await self._store.call("HGETALL", keys.webhook_cursors)
            cursors = dict(zip(flat[::2], flat[1::2], strict=True))
            for name in webhooks.keys() - known.keys():
                cursor = cursors.get(name.encode(), b"")
                position = _position(webhooks[name], cursor)
                has_read = bool(cursor) and (webhooks[name].message_id is not None or position == cursor)
                known[name] = _Reader(webhooks[name], cursor, position, has_read, follows=follows.get(name))
        readers = {name: known[name] for name in webhooks}
        for name, reader in readers.items():
            reader.webhook = webhooks[name]
        if readers:
            self._readers_of[keys.actor] = readers
        if len(self._readers_of) > _MAX_REMEMBERED:
            del self._readers_of[next(iter(self._readers_of))]
        return list(readers.values())

    async def _read(self, keys: SessionKeys, readers: Sequence[_Reader], left_out: dict[str, bool]) -> None:
        """Take the next events for readers at one position.

        ``left_out``: webhooks that are not looked at again now, and whether that is because too much waits for them.
        """
        position = readers[0].position
        found = await self._store.call("XRANGE", keys.events, position.decode(), "+", "COUNT", _EVENTS_PER_READ + 1)
        anchored = bool(found) and found[0][0] == position
        new = found[1:] if anchored else found
        entries = _bounded(new, len(readers))
        if len(entries) == len(new) < _EVENTS_PER_READ:
            left_out.update((each.webhook.id, False) for each in readers)
        if not new:
            await self._end_gone(keys, readers)
        if entries:
            gap = None if anchored else _gap(keys, entries[0][0], rfc3339(await self._store.now_ms()))
            await self._put(keys, readers, entries, gap, left_out)

    async def _end_gone(self, keys: SessionKeys, readers: Sequence[_Reader]) -> None:
        """Follow those tasks no more that are removed, and whose last events were taken."""
        for reader in readers:
            if reader.follows is not None and reader.follows.is_gone:
                await self._callbacks.end(keys.actor, reader.webhook.id)

    async def _put(
        self,
        keys: SessionKeys,
        readers: Sequence[_Reader],
        entries: Sequence[Any],
        gap: bytes | None,
        left_out: dict[str, bool],
    ) -> None:
        """Put events on their way, and note how far each webhook has come."""
        end = entries[-1][0]
        for reader in readers:
            reader.passed += len(entries)
        taken = [(reader, self._wanted(keys, reader, entries, gap)) for reader in readers]
        moved = [each for each in taken if each[1] or each[0].passed >= _MAX_PASSED]
        outcomes = await self._run(keys, moved, end) if moved else []
        refused = set[str]()
        for (reader, _), outcome in zip(moved, outcomes, strict=True):
            reader.cursor, reader.passed = max(reader.cursor or START, end, key=order), 0
            if outcome <= 0:
                refused.add(reader.webhook.id)
                self._forget(keys, reader)
            if outcome < 0:
                left_out[reader.webhook.id] = True
            elif outcome == 0:  # the other may not have come as far as this
                left_out.pop(reader.webhook.id, None)
        for reader in readers:
            if reader.webhook.id not in refused:
                reader.position, reader.has_read = end, True
                if reader.follows is not None and reader.follows.turn.over:
                    await self._callbacks.end(keys.actor, reader.webhook.id)

    async def _run(self, keys: SessionKeys, moved: Sequence[tuple[_Reader, list[Argument]]], end: bytes) -> Any:
        """Move the cursors of webhooks together with what they get; returns the outcome for each."""
        head: list[Argument] = [self._ttl_s, keys.tenant, MAX_WAITING, MAX_WAITING_BYTES, len(moved)]
        items: list[Argument] = []
        for number, (reader, wanted) in enumerate(moved, start=1):
            head += (reader.webhook.id, reader.cursor, max(reader.cursor or START, end, key=order))
            for first in range(0, len(wanted), _ARGUMENTS_PER_EVENT):
                items += (number, *wanted[first : first + _ARGUMENTS_PER_EVENT])
        names = [waiting_webhooks(self._shard), keys.webhook_cursors, keys.erased]
        return await self._store.run("webhook_collect", names, [*head, *items])

    def _forget(self, keys: SessionKeys, reader: _Reader) -> None:
        """Have a webhook read anew as it is kept: another was quicker, or it can take no more."""
        self._readers_of.get(keys.actor, {}).pop(reader.webhook.id, None)
        if reader.follows is not None:
            reader.follows.restart()

    def _wanted(self, keys: SessionKeys, reader: _Reader, entries: Sequence[Any], gap: bytes | None) -> list[Argument]:
        """Return what a webhook gets: the lane, the task, the cursor and the JSON of each event."""
        found: list[Argument] = []
        if gap is not None and reader.has_read and order(entries[0][0]) > order(reader.cursor or START):
            found += (f"{keys.actor}/", "", entries[0][0], gap)
        for entry, data, event in map(_event, entries):
            if event is None or (reader.follows is not None and not reader.follows.turn.takes(event)):
                continue
            if order(entry) > order(reader.cursor or START) and reader.webhook.wants(event["type"]):
                task = _task(event)
                found += (f"{keys.actor}/{task}", task, entry, data)
        return found


def _position(webhook: Webhook, cursor: bytes) -> bytes:
    """Return the position from which a webhook reads on. The turn of a message is read anew, to know where it is.

    A cursor may be of an earlier wish for the updates of the same task.
    """
    first = b"%d-%d" % (webhook.created_ms - 1, _LAST)
    if not cursor or webhook.message_id is not None:
        return first
    return cursor if webhook.push is None else max(cursor, first, key=order)


def _session(name: bytes) -> str | None:
    try:
        return decoded_id(name.decode(errors="replace"))
    except ValueError:
        return None


def _bounded(entries: Sequence[Any], readers: int) -> Sequence[Any]:
    """Return the first entries: as many as may be copied at once, one at least."""
    size = 0
    for number, (_, fields) in enumerate(entries[:_EVENTS_PER_READ]):
        size += readers * sum(map(len, fields))
        if size > _COPIED_BYTES and number:
            return entries[:number]
    return entries[:_EVENTS_PER_READ]


def _event(entry: Any) -> tuple[bytes, bytes, Mapping[str, Any] | None]:
    """Return an entry's id with its event, which is None for what is not durable or not ours."""
    for event in events_of([entry]):
        try:
            read = from_json(event.data)
        except ValueError:
            break
        if isinstance(read, dict) and isinstance(kind := read.get("type"), str) and kind not in EPHEMERAL:
            return event.id, event.data, read
    return entry[0], b"", None


def _task(event: Mapping[str, Any]) -> str:
    task = event.get("task_id")
    return task if isinstance(task, str) and is_identifier(task) else ""


def _gap(keys: SessionKeys, entry: bytes, at: str) -> bytes:
    """Return the event that says that events before this one were not kept long enough."""
    return ErrorEvent(
        event_id=f"gap-{entry.decode()}",
        at=at,
        tenant_id=keys.tenant,
        session_id=keys.session,
        code=ErrorCode.CURSOR_EXPIRED,
        message="events of this session before this one were not kept until they could be sent: look at its tasks",
    ).to_json()
