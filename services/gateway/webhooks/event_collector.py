"""Takes events of one shard's sessions and puts them on their way to webhooks: each once, in order, none left out.

What a webhook has had is a cursor in Redis for each session, which one script moves together with what it puts on its
way. So whoever is killed, or is not alone, leaves nothing out and doubles nothing. The doorbell tells which sessions
have news; after a start, a new connection or lost rings all sessions of tenants with webhooks are looked at.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EPHEMERAL, ErrorEvent
from pentad.contracts.ids import decoded_id, is_identifier, rfc3339, shard_of
from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.webhooks.followed import FollowedCallbacks, FollowedTurn, RegisteredWebhooks
from pentad.shared.events.feed import START, events_of, order
from pentad.shared.keys import SessionKeys, actor_parts, bell, session_index, waiting_webhooks
from pentad.shared.store.store import Argument, Store

MAX_WAITING = 10_000
"""Events that may wait for one webhook in one shard; further ones stay in their sessions as long as these keep them."""
MAX_WAITING_BYTES = 64 << 20
_READ = 32
"""Events of a session that are read at once: one has up to a MiB."""
_COPIED_BYTES = 4 << 20
"""Bytes that one script puts on their way at most, but one event at least."""
_RINGS = 500
_SESSIONS_AT_ONCE = 16
_SESSIONS_PER_PAGE = 500
_CLOCK_BACK_MS = 60_000
"""Milliseconds before now from which events are taken while the clock of Redis is before a webhook's registration."""
_FULL_S = 5.0
"""Seconds until a session is looked at again of which a webhook can take no more."""
_CURSOR_S = 86_400
"""Seconds for which a cursor outlives the events of its session."""
_LAST = (1 << 64) - 1


@dataclass(slots=True)
class _Reader:
    """A webhook that reads a session from a position on."""

    webhook: Webhook
    cursor: bytes | None
    """Cursor as it is kept; None before the first event."""
    position: bytes
    follows: FollowedTurn | None


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
        self._dirty: dict[str, None] = {}
        self._full: dict[str, float] = {}
        """Actors of sessions that are looked at again, by the loop's time of that."""

    def reset(self) -> None:
        """Begin anew: another may have collected meanwhile, or Redis knows less."""
        self._callbacks.clear()
        self._heard, self._known = None, frozenset()
        self._dirty.clear()
        self._full.clear()

    async def collect(self) -> bool:
        """Take what there is; returns whether there is more. Raises ``OutageError``."""
        self._mark(await self._callbacks.read_new())
        await self._listen()
        await self._sweep_new()
        self._mark_full()
        batch = list(self._dirty)[:_SESSIONS_AT_ONCE]
        await asyncio.gather(*map(self._collect, batch))
        return bool(self._dirty)

    def _mark(self, actors: Sequence[str]) -> None:
        self._dirty |= dict.fromkeys(actors)

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
            self._dirty[actor] = None
            return
        try:
            tenant, session = actor_parts(actor)
        except ValueError:
            return
        if self._registered.of(tenant, session):
            self._dirty[actor] = None

    async def _sweep_new(self) -> None:
        """Look at all sessions of webhooks that are new here."""
        if self._heard is None:
            return
        new = [each for each in self._registered.all() if each.id not in self._known]
        self._known = self._registered.ids
        for tenant in dict.fromkeys(each.tenant_id for each in new if each.session_id is None):
            await self._sweep(tenant, min(each.created_ms for each in new if each.tenant_id == tenant))
        for each in new:
            if each.session_id is not None and shard_of(each.tenant_id, each.session_id, self._shards) == self._shard:
                self._mark([SessionKeys(self._shard, each.tenant_id, each.session_id).actor])

    async def _sweep(self, tenant: str, since_ms: int) -> None:
        """Mark the sessions of a tenant that have had events since this time."""
        since_ms = min(since_ms, await self._store.clock() - _CLOCK_BACK_MS)
        first = 0
        while True:
            last = first + _SESSIONS_PER_PAGE - 1
            names = await self._store.call("ZREVRANGE", session_index(self._shard, tenant), first, last)
            keys = [SessionKeys(self._shard, tenant, session) for session in map(_session, names) if session]
            ends = await asyncio.gather(*(self._store.run("last_id", [each.events], []) for each in keys))
            self._mark([each.actor for each, (end, _) in zip(keys, ends, strict=True) if order(end)[0] >= since_ms])
            if len(names) < _SESSIONS_PER_PAGE:
                return
            first += _SESSIONS_PER_PAGE

    async def _collect(self, actor: str) -> None:
        """Take what one session has. A webhook of which too much waits is left out for a while."""
        self._dirty.pop(actor, None)
        keys, left_out = SessionKeys(self._shard, *actor_parts(actor)), dict[str, bool]()
        try:
            while readers := await self._readers(keys, left_out):
                first = min((each.position for each in readers), key=order)
                group = [each for each in readers if each.position == first]
                if not await self._read(keys, group, left_out) and len(group) == len(readers):
                    break
        except BaseException:
            self._dirty[actor] = None
            raise
        if any(left_out.values()):
            self._full[actor] = asyncio.get_running_loop().time() + _FULL_S

    async def _readers(self, keys: SessionKeys, left_out: Collection[str]) -> list[_Reader]:
        """Return the webhooks of a session with how far each has come."""
        registered, turns = self._registered.of(keys.tenant, keys.session), self._callbacks.of(keys.actor)
        if not registered and not turns:
            return []
        flat = await self._store.call("HGETALL", keys.webhook_cursors)
        cursors = dict(zip(flat[::2], flat[1::2], strict=True))
        now = await self._store.now_ms()
        readers = []
        for webhook, turn in [*((each, None) for each in registered), *((each.webhook, each) for each in turns)]:
            cursor = cursors.get(webhook.id.encode())
            seen = (cursor or START) if turn is None else turn.seen
            readers.append(_Reader(webhook, cursor, max(seen, _beginning(webhook, now), key=order), turn))
        return [each for each in readers if each.webhook.id not in left_out]

    async def _read(self, keys: SessionKeys, readers: Sequence[_Reader], left_out: dict[str, bool]) -> bool:
        """Take the next events for readers at one position; returns whether there may be more for them.

        ``left_out``: webhooks that are not looked at again now, and whether that is because too much waits for them.
        """
        position = readers[0].position
        found = await self._store.call("XRANGE", keys.events, position.decode(), "+", "COUNT", _READ + 1)
        anchored = bool(found) and found[0][0] == position
        entries = _bounded(found[1:] if anchored else found, len(readers))
        if not entries:
            left_out.update((each.webhook.id, False) for each in readers)
            return False
        gap = None if anchored else _gap(keys, entries[0][0], rfc3339(await self._store.now_ms()))
        outcomes = await self._put(keys, readers, entries, gap)
        for reader, outcome in zip(readers, outcomes, strict=True):
            if outcome < 0:
                left_out[reader.webhook.id] = True
            if reader.follows is not None:
                await self._settle(keys, reader.follows, outcome, entries[-1][0])
        return len(found) - anchored > len(entries) or len(found) > _READ or 0 in outcomes

    async def _put(
        self, keys: SessionKeys, readers: Sequence[_Reader], entries: Sequence[Any], gap: bytes | None
    ) -> Sequence[int]:
        end = entries[-1][0]
        args: list[Argument] = [self._ttl_s, keys.tenant, MAX_WAITING, MAX_WAITING_BYTES, len(readers)]
        for each in readers:
            cursor = max(each.cursor or START, end, key=order)
            args += (each.webhook.id, each.cursor or b"", cursor)
        parsed = [(entry, data, event) for entry, data, event in map(_event, entries) if event is not None]
        for number, each in enumerate(readers, start=1):
            had = each.cursor or START
            if gap is not None and each.cursor is not None and order(had) == order(each.position):
                args += (number, f"{keys.actor}/", "", entries[0][0], gap)
            for entry, data, event in parsed:
                wanted = each.follows is None or each.follows.turn.takes(event)
                if wanted and order(entry) > order(had) and each.webhook.wants(event["type"]):
                    task = _task(event)
                    args += (number, f"{keys.actor}/{task}", task, entry, data)
        names = [waiting_webhooks(self._shard), keys.webhook_cursors, keys.erased]
        outcomes: Sequence[int] = await self._store.run("webhook_collect", names, args)
        return outcomes

    async def _settle(self, keys: SessionKeys, follows: FollowedTurn, outcome: int, end: bytes) -> None:
        """Note how far a callback's turn was read, or read it anew where this was in vain."""
        if outcome <= 0:
            follows.restart()
            return
        follows.seen = end
        if follows.turn.over:
            await self._callbacks.end(keys.actor, follows.webhook.id)


def _beginning(webhook: Webhook, now_ms: int) -> bytes:
    """Return the position behind which a webhook's first event lies."""
    since = webhook.created_ms if now_ms >= webhook.created_ms else now_ms - _CLOCK_BACK_MS
    return b"%d-%d" % (since - 1, _LAST)


def _session(name: bytes) -> str | None:
    try:
        return decoded_id(name.decode(errors="replace"))
    except ValueError:
        return None


def _bounded(entries: Sequence[Any], readers: int) -> Sequence[Any]:
    """Return the first entries: as many as may be copied at once, one at least."""
    size = 0
    for number, (_, fields) in enumerate(entries[:_READ]):
        size += readers * sum(map(len, fields))
        if size > _COPIED_BYTES and number:
            return entries[:number]
    return entries[:_READ]


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
