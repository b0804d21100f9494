"""The ingress: one router at a time moves inbound entries into their sessions' mailboxes, in order.

Around FastStream, because the read itself must be fenced: a paused holder whose read wakes up later would swallow
entries. The lease lies in the slot of the stream, and one script compares it and reads. Repeats are dropped inside the
shard by entry id, so moving is at least once and the result is once.

A process that is woken costs more than what it does, so what can leave together does: the blocked read that ends the
sleep names the entry that has come, and what must be known of its session is asked in one write with the fenced read;
the next blocked read leaves with the commit. What the blocked read says is a guess; only what the fenced read gives
counts.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from secrets import token_hex
from typing import Any

from redis.exceptions import RedisError, ResponseError

from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import EVENTS, INBOUND, INBOUND_DEAD, SESSION_WAKE
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.erased_marks import entry_order, mark_at
from pentad.shared.errors import OutageError
from pentad.shared.inbound.arrival import (
    MOST_ENTRY_BYTES,
    Arrival,
    another_message,
    fields_of,
    message_digest,
    read_entry,
    too_large,
)
from pentad.shared.inbound.callbacks import MessageCallbacks, without_callback
from pentad.shared.inbound.fast_path import FastPath, Source
from pentad.shared.keys import (
    DEDUP_TTL_S,
    FIRST_ID,
    INBOUND_LEASE,
    SessionKeys,
    bell,
    buried,
    dedup,
    erased_user,
    load,
    session_index,
    told,
)
from pentad.shared.kinds import USER
from pentad.shared.settings import Settings
from pentad.shared.store.beats import write_before_stop
from pentad.shared.store.redis_replies import Heard
from pentad.shared.store.refusals import is_outage
from pentad.shared.store.store import Argument, Command, Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.dead_letters import chain_of, count_letter, make_letter
from pentad.shared.work.entry import printable

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

WAITING_LIMIT = 20_000
"""Messages that may wait in one shard to be taken into a step, before the ingress stops copying."""
_MAX_PASSED = WAITING_LIMIT
"""Entries for full shards that are read past to reach those for others."""
_GROUP = INBOUND.group or ""
_BATCH = 128
"""Entries of one read."""
_READ_BYTES = 8 << 20
"""Bytes of one read: behind so many no further entry is begun."""
_FAST_PATH_LIMIT = 32
"""Arrivals of one read that are routed where they enter. When more come together this router is busy: it only moves
them, and all routers decide.
"""
_BLOCK_MS = 500
"""Milliseconds that a read waits for entries."""
_COMPETE_S = 0.25
"""Seconds between two attempts of a router to get the ingress's lease."""


class NextEntry:
    """One question at a time: asked before what was read is handled, awaited after.

    So it leaves together with what the handling writes, and does not wake a sleeping server once more.
    """

    def __init__(self, store: Store, stream: str) -> None:
        self._store, self._stream = store, stream
        self._asked: Heard | None = None

    def ask(self, after: str, block_ms: int) -> None:
        """Ask for the first entry behind this one, to wait for at most so long.

        One that was asked for before, and is not heard yet, stays: it stands behind an earlier entry and comes sooner.
        """
        if self._asked is None:
            self._asked = self._store.listen(self._stream, after, block_ms)

    async def hear(self) -> tuple[str, dict[bytes, bytes]] | None:
        """Await the entry: its id and fields; None when none has come, or a large one. Raises ``OutageError``."""
        asked, self._asked = self._asked, None
        reply: Any = None if asked is None else await self._store.heard(asked, self._stream)
        if not reply:
            return None
        [[_, [[entry_id, fields]]]] = reply
        return entry_id.decode(), fields_of(fields)

    def drop(self) -> None:
        """Cancel the read that nobody will await."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.cancel()


class Ingress:
    """Moves inbound entries to their sessions. Every router runs one; the lease decides which of them works."""

    def __init__(self, store: Store, settings: Settings, fast_path: FastPath | None = None) -> None:
        self._store, self._settings, self._fast_path = store, settings, fast_path
        self._refusing = RefusedEntries(store, settings)
        self._callbacks = MessageCallbacks(store, settings.pentad_web_allow)
        self._owner = token_hex(16)
        self._token = 0
        self._generation = ""
        """Generation of the inbound stream, which changes when the stream is replaced."""
        self._acks: list[str] = []
        self._connection = 0
        """Number of the connection over which the lease was taken. A new one begins with pending entries."""
        self._last = "0-0"
        self._news = NextEntry(store, INBOUND.key())

    async def run(self) -> None:
        """Compete for the lease and move entries, for ever."""
        while True:
            await self._compete()

    async def _compete(self) -> None:
        """Take the lease if it is free and move entries while it is held; an outage is waited out."""
        try:
            await ensure_group(self._store, INBOUND.key(), _GROUP)
            if await self._lease():
                try:
                    await self._hold()
                finally:
                    self._news.drop()
            else:
                await asyncio.sleep(min(_COMPETE_S, self._settings.lease_ms / 8000))
        except (OutageError, RedisError, OSError) as error:
            if isinstance(error, ResponseError) and not is_outage(error) and "NOGROUP" not in str(error):
                self._store.stumbled("the ingress", error)
            _say.warning("the ingress", "the ingress waits: %s", error)
            await asyncio.sleep(0.2)

    async def release(self) -> None:
        """Let another router go on at once, behind what has been moved. In an outage the lease ends by itself."""
        await write_before_stop(self._store, "the ingress", self._release())

    async def _release(self) -> None:
        if self._acks:
            await self._store.call("XACK", INBOUND.key(), _GROUP, *self._acks, on=self._connection)
        await self._store.run("inbound_release", [INBOUND_LEASE], [self._owner])

    async def _lease(self) -> bool:
        args: list[Argument] = [self._owner, self._settings.lease_ms]
        reply = await self._store.run("inbound_lease", [INBOUND_LEASE], args)
        if reply is None:
            return False
        self._token, self._generation = int(reply[0]), reply[1].decode()
        return True

    async def _hold(self) -> None:
        """Move pending entries, in order, then fresh ones, until the lease is lost.

        Entries that a full shard refuses stay pending and are begun with again; other shards do not wait for them.
        """
        start, self._acks, self._connection = "0", [], self._store.connection
        full: set[int] = set()
        left, foreseen = 0, None
        groups = await self._store.groups(INBOUND.key())
        self._last = next((g[b"last-delivered-id"].decode() for g in groups if g[b"name"].decode() == _GROUP), "0-0")
        while True:
            found = await self._read(start, foreseen)
            if found is None:
                return
            (arrivals, source, more), foreseen = found, None
            at_end = start == ">" and not more
            if at_end and not full:
                self._news.ask(self._last, min(_BLOCK_MS, self._settings.lease_ms // 4))
            left += len(arrivals) - await self._move(arrivals, source, full)
            if full and (at_end or left > _MAX_PASSED or len(full) == self._settings.pentad_shards):
                start, left = "0", 0
                full.clear()
                await asyncio.sleep(0.05)
            elif at_end:
                foreseen = await self._sleep(len(arrivals))  # what was moved is acknowledged with the next read
            elif start != ">":
                start = arrivals[-1].entry_id if arrivals else ">"

    async def _read(self, start: str, foreseen: Arrival | None) -> tuple[list[Arrival], Source, bool] | None:
        """Return the entries that are there, and whether there may be more; None when the lease is lost.

        Questions about the session of the foreseen entry go along. Their answers are used when exactly it is read.
        """
        lease: list[Argument] = [self._owner, self._token, self._settings.lease_ms]
        args: list[Argument] = [*lease, _GROUP, start, _BATCH, _READ_BYTES, MOST_ENTRY_BYTES, FIRST_ID, *self._acks]
        questions: Sequence[Command] = ()
        if self._fast_path is not None and foreseen is not None and foreseen.session is not None:
            questions = self._fast_path.questions(foreseen.session)
        # What is acknowledged was written over this connection; a new one may lead to a server that has lost it.
        keys, on = [INBOUND_LEASE, INBOUND.key()], self._connection
        reply, answers = await self._store.run_and_ask("inbound_read", keys, args, questions, on)
        if reply is None:
            return None
        self._acks = []
        at, entries, more, cut = reply
        large = {entry: (size, digest.decode()) for entry, size, digest in cut}
        arrivals = [
            too_large(i.decode(), fields_of(f), *large[i])
            if i in large
            else self._arrival(i.decode(), fields_of(f), foreseen)
            for i, f in entries
        ]
        if arrivals and start == ">":
            self._last = arrivals[-1].entry_id
        if not questions or arrivals != [foreseen]:
            answers = None
        return arrivals, Source(self._generation, on, int(at), answers), bool(more)

    def _arrival(self, entry_id: str, fields: dict[bytes, bytes], foreseen: Arrival | None) -> Arrival:
        """Return an entry, read once. Fields are compared: a replaced stream may have another entry of this id."""
        if foreseen is not None and (foreseen.entry_id, foreseen.fields) == (entry_id, fields):
            return foreseen
        return read_entry(entry_id, fields, self._settings.pentad_shards)

    async def _sleep(self, read: int) -> Arrival | None:
        """Wait until the stream has more than the group was given; returns the entry that will be read next, alone.

        After a read of several entries none is foreseen: under load they come together.
        """
        entry = await self._news.hear()
        if entry is None or read > 1:
            return None
        arrival = read_entry(*entry, self._settings.pentad_shards)
        return arrival if arrival.message is not None else None

    async def _move(self, arrivals: list[Arrival], source: Source, full: set[int]) -> int:
        """Move entries to their shards; the next read acknowledges. Returns how many, and adds the shards that refuse.

        After a refusal nothing goes to that shard until all that is pending is gone through again.
        """
        arrivals = [await self._called_back(each) for each in arrivals]
        for arrival in arrivals:
            if arrival.message is None:
                await self._refusing.refuse(arrival)
        refused: set[str] = set()
        for shard in sorted({a.session.shard for a in arrivals if a.message and a.session}):
            batch = [a for a in arrivals if a.message and a.session and a.session.shard == shard]
            if shard not in full:
                if len(arrivals) <= _FAST_PATH_LIMIT:
                    batch = await self._route(shard, batch, source)
                batch = batch[await self._ingest(shard, batch) :] if batch else []
            refused |= {a.entry_id for a in batch}
            if batch:
                full.add(shard)
        self._acks = [a.entry_id for a in arrivals if a.entry_id not in refused]
        return len(self._acks)

    async def _called_back(self, arrival: Arrival) -> Arrival:
        """Note the callback of an arrival's message, and return the arrival without it, or refused."""
        message, session = arrival.message, arrival.session
        if message is None or session is None or message.callback_url is None:
            return arrival
        if not await self._refusing.is_erased(session, arrival.first_id):
            refused = await self._callbacks.note(session, message)
            if refused is not None:
                return replace(arrival, message=None, problem=refused.problem, code=refused.code)
        return replace(arrival, message=without_callback(message))

    async def _route(self, shard: int, batch: list[Arrival], source: Source) -> list[Arrival]:
        """Route arrivals by the fast path where that is possible; returns the others, in their order.

        Of a session with several arrivals none is: they are handled one after the other.
        """
        if self._fast_path is None:
            return batch
        if len(batch) == 1:  # as most are: no task for it
            return [] if await self._route_one(self._fast_path, shard, batch[0], source) else batch
        count = Counter(a.session for a in batch)
        alone = [a for a in batch if count[a.session] == 1]
        sources = await self._sources(self._fast_path, alone, source)
        routed = await asyncio.gather(
            *(self._route_one(self._fast_path, shard, a, its) for a, its in zip(alone, sources, strict=True)),
            return_exceptions=True,
        )
        for outcome in routed:
            if isinstance(outcome, BaseException):
                raise outcome
        entered = {a.entry_id for a, outcome in zip(alone, routed, strict=True) if outcome}
        return [a for a in batch if a.entry_id not in entered]

    async def _sources(self, fast_path: FastPath, alone: list[Arrival], source: Source) -> list[Source]:
        """Return the source of each arrival with the state of its session, which is asked for all in one write."""
        asked = [fast_path.questions(a.session) if a.session else () for a in alone]
        answers = iter(await self._store.answers([*chain.from_iterable(asked)], on=source.connection))
        found = [[*islice(answers, len(questions))] for questions in asked]
        refused = [any(isinstance(answer, Exception) for answer in one) for one in found]
        return [replace(source, answers=None if no else one) for no, one in zip(refused, found, strict=True)]

    async def _route_one(self, fast_path: FastPath, shard: int, arrival: Arrival, source: Source) -> bool:
        assert arrival.session is not None
        assert arrival.message is not None
        waiting = await fast_path.route(arrival.session, arrival.message, arrival.entry_id, source)
        if waiting is not None:
            self._entered(shard, waiting, 1)
        return waiting is not None

    def _entered(self, shard: int, waiting: int, count: int) -> None:
        metrics.waiting_mail.labels(str(shard)).set(waiting)
        metrics.consumed.labels(INBOUND.name, "InboundMessage").inc(count)

    async def _ingest(self, shard: int, batch: list[Arrival]) -> int:
        first = batch[0].session
        assert first is not None
        keys = [first.wake, load(shard)]
        args: list[Argument] = [self._settings.session_ttl_s, DEDUP_TTL_S, WAITING_LIMIT, self._generation]
        for arrival in batch:
            session, message = arrival.session, arrival.message
            assert session is not None
            assert message is not None
            assert message.message_id is not None
            keys += (
                session.header,
                session.messages,
                dedup(shard, session.tenant, session.session, message.message_id),
                session_index(shard, session.tenant),
                session.erased,
                erased_user(shard, session.tenant, message.user_id) if message.user_id else session.erased,
            )
            digest = message_digest(message)
            args += (arrival.entry_id, session.actor, session.tenant, session.name, digest, message.to_json())
        waiting, woken, *outcomes = await self._store.run("ingest", keys, args, on=self._connection)
        for arrival, outcome in zip(batch, outcomes, strict=False):
            if outcome == b"other":
                await self._refusing.refuse_text(arrival)
        self._entered(shard, int(waiting), len(outcomes))
        metrics.published.labels(SESSION_WAKE.name, USER).inc(outcomes.count(b"new"))
        count_wake_ups(SESSION_WAKE, woken)
        return len(outcomes)


class RefusedEntries:
    """Tells sessions of refused entries and sets these aside, each once.

    Both writes are guarded by the id that the entry had first, so a repeat writes nothing.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    async def refuse(self, arrival: Arrival) -> None:
        """Tell the session and set the entry aside. An entry from before its session was erased is dropped."""
        if arrival.session is not None and await self.is_erased(arrival.session, arrival.first_id):
            return
        if arrival.session is not None:
            await self._tell(arrival.session, arrival)
        session = arrival.session
        letter = make_letter(
            "entry",
            INBOUND.key(),
            arrival.first_id,
            ((printable(name), value) for name, value in arrival.fields.items()),
            reason=arrival.problem,
            attempts=1,
            at=arrival.at,
            whom={"tenant_id": session.tenant, "session_id": session.session} if session is not None else {},
            chain=chain_of(message=arrival.message_id),
            clipped=arrival.cut,
        )
        keys = [buried(arrival.first_id), INBOUND_DEAD.key()]
        if await self._store.run("dead_once", keys, [DEDUP_TTL_S, letter.to_json()]):
            count_letter(INBOUND, "InboundMessage")
            log.error("inbound entry %s was set aside: %s", arrival.first_id, arrival.problem)

    async def refuse_text(self, arrival: Arrival) -> None:
        """Refuse a message whose id was accepted with another text, or was until now."""
        assert arrival.session is not None
        assert arrival.message is not None
        session = arrival.session
        mark = await self._store.call("GET", dedup(session.shard, session.tenant, session.session, arrival.message_id))
        accepted = (mark or b"").decode(errors="replace").partition(" ")[2] or "forgotten meanwhile"
        await self.refuse(replace(arrival, problem=another_message(accepted, message_digest(arrival.message))))

    async def is_erased(self, session: SessionKeys, entry: str) -> bool:
        """Return whether a session was erased after an entry came."""
        mark = await mark_at(self._store, session.erased)
        return mark is not None and entry_order(entry) <= entry_order(mark.entry)

    async def _tell(self, session: SessionKeys, arrival: Arrival) -> None:
        event = ErrorEvent(
            event_id=f"e-{arrival.first_id}",
            at=arrival.at,
            tenant_id=session.tenant,
            session_id=session.session,
            causation_id=arrival.first_id,
            code=arrival.code,
            message=arrival.problem,
            message_id=arrival.message_id,
        )
        guard = told(session.shard, session.tenant, session.session, f"refused:{arrival.first_id}")
        args: list[Argument] = [
            DEDUP_TTL_S,
            event.to_json(),
            self._settings.pentad_events_maxlen,
            self._settings.pentad_events_ttl_s,
            session.actor,
        ]
        done = await self._store.run("tell_once", [guard, session.events, bell(session.shard)], args)
        metrics.published.labels(EVENTS.name, ErrorEvent.__name__).inc(done)
