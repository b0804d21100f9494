"""A session's wake-up becomes a routed message: read the candidates, decide, commit."""

import asyncio
import logging
import random
from dataclasses import replace
from secrets import token_hex

from contracts.commands import InboundMessage
from contracts.errors import ErrorCode
from contracts.ids import rfc3339, shard_in, task_id
from contracts.streams import DEAD, SESSION_WAKE, DeadLetter
from services.router.domain import Route, View, decide
from services.router.routing import RouteWriter
from shared import metrics
from shared.bus.entry import Done, Entry, printable, reason_of
from shared.bus.handler import MAX_STARTS
from shared.bus.wake_ups import WakeUps
from shared.errors import DamagedError, OutageError
from shared.instructions import INSTRUCTIONS
from shared.records import Records
from shared.seldom import Seldom
from shared.settings import Settings
from shared.state.actors import Actors, LeaseKeeper, Taken
from shared.state.commit import Commit
from shared.state.headers import Mail, SessionHeader, session_header
from shared.state.keys import SessionKeys, TaskKeys
from shared.state.mail import Turn, due, read_session_mail
from shared.state.sessions import last_turns, load_tasks

log = logging.getLogger(__name__)
_say = Seldom(log)

_CONTEXT_TURNS = 12
_CONTEXT_CHARS = 4_000
_BACKOFF_S = 0.2
_OUTAGE_S = 0.5
"""A store that is down is asked again this often; nothing is counted (hazard 7)."""


class RouterHandler(WakeUps[SessionKeys]):
    """Serves sessions' wake-ups. Many at once; one session at a time, by its lease."""

    def __init__(self, actors: Actors, keeper: LeaseKeeper, records: Records, settings: Settings, shard: int) -> None:
        super().__init__(actors, keeper, shard)
        self._records, self._settings = records, settings

    def keys_of(self, tenant: str, name: str) -> SessionKeys:
        return SessionKeys(self._shard, tenant, name)

    async def handle(self, entry: Entry) -> Done:
        keys = self.woken(entry)
        taken = await self._actors.take(keys, entry.id)
        if taken is None:
            return Done.COMMITTED
        with self._keeper.hold(keys, taken.lease):
            await self._attempts(keys, taken)
        return Done.COMMITTED

    async def _attempts(self, keys: SessionKeys, taken: Taken) -> None:
        """Errors of our own back off and are counted; then the message is set aside, visibly."""
        if taken.lease.starts > MAX_STARTS:
            await self.give_up(keys, taken, f"{MAX_STARTS} starts ended without an outcome")
            return
        for attempt in range(1, self._settings.pentad_max_attempts + 1):
            try:
                await self._serve(keys, taken)
            except OutageError as error:
                await self._hand_on(keys, taken, error)
                return
            except Exception as error:
                log.exception("routing in %s failed (attempt %d)", keys.actor, attempt)
                metrics.failed.labels(SESSION_WAKE.name, "user").inc()
                if attempt == self._settings.pentad_max_attempts:
                    await self.give_up(keys, taken, reason_of(error))
                    return
                await asyncio.sleep(_BACKOFF_S * 2**attempt)
            else:
                return

    async def _hand_on(self, keys: SessionKeys, taken: Taken, error: OutageError) -> None:
        """A store does not serve: after a pause any router may try again, and this was no start."""
        _say.warning("routing", "routing in %s waits: %s", keys.actor, error)
        await asyncio.sleep(_OUTAGE_S * random.uniform(0.5, 1.0))
        await self._actors.release(keys, taken.lease.wake_id, taken.lease.token)

    def _commit(self, keys: SessionKeys) -> Commit:
        s = self._settings
        return Commit(keys, f"step-{token_hex(16)}", s.pentad_events_maxlen, s.pentad_events_ttl_s)

    async def _serve(self, keys: SessionKeys, taken: Taken) -> None:
        mail = _first(taken)
        if mail is None:
            commit = self._commit(keys)
            commit.unmail([m.number for m in taken.signals])
            await self._actors.commit(commit, taken)
            return
        entry_id, message = read_session_mail(mail.body)
        while True:
            view = await self._look(keys, session_header(taken.raw), message, taken.lease.now)
            commit = await self._write(keys, taken, mail, (entry_id, message), decide(view))
            if await self._actors.commit(commit, taken) != "again":
                return
            taken = replace(taken, raw={**taken.raw, **await self._reread(keys)})

    async def _reread(self, keys: SessionKeys) -> dict[str, bytes]:
        raw = await self._actors.store.call("HMGET", keys.header, "live", "done")
        return {name: value or b"" for name, value in zip(("live", "done"), raw, strict=True)}

    async def _look(self, keys: SessionKeys, session: SessionHeader, message: InboundMessage, now: int) -> View:
        """Everything that the decision depends on, read at once."""
        named_id = message.task_id or ""
        tasks = await load_tasks(self._actors.store, keys.shard, keys.tenant, (session.live, session.done, named_id))
        named = tasks[2]
        if named is not None and named.session != keys.session:
            named = None
        archived, damaged = False, ""
        if message.task_id and named is None and shard_in(named_id, self._settings.pentad_shards) == keys.shard:
            try:
                record = await self._records.read(keys.tenant, named_id)
                archived = record is not None and record.task.session_id == keys.session
            except DamagedError as error:
                damaged = str(error)
        return View(
            message=message,
            live=tasks[0],
            done=tasks[1],
            named=named,
            archived=archived,
            damaged=damaged,
            instructions=frozenset(INSTRUCTIONS),
            now=now,
            grace_ms=round(self._settings.pentad_grace_s * 1000),
            deadline=due(message),
        )

    async def _write(
        self, keys: SessionKeys, taken: Taken, mail: Mail, arrived: tuple[str, InboundMessage], route: Route
    ) -> Commit:
        """The decision as one commit."""
        commit = self._commit(keys)
        entry_id, message = arrived
        writer = RouteWriter(commit, keys, taken, message, entry_id, self._settings.session_ttl_s)
        if route.decision == "rejected":
            commit.consume(mail.number)
            writer.reject(route)
            return commit
        commit.pass_on(mail.number)
        context: list[Turn] = []
        if route.task is None:
            context = await self._context(keys, message, route)
            task = TaskKeys(keys.shard, keys.tenant, task_id(keys.shard, token_hex(10)))
            writer.new(task, route)
        else:
            task = TaskKeys(keys.shard, keys.tenant, route.task.task)
            writer.existing(task, route.task, route)
        writer.send(task, context, route)
        return commit

    async def _context(self, keys: SessionKeys, message: InboundMessage, route: Route) -> list[Turn]:
        """The last turns that a new task begins with."""
        if route.continues == "session":
            turns = await last_turns(self._actors.store, keys, _CONTEXT_TURNS)
        else:
            record = await self._records.read(keys.tenant, message.task_id or "")
            turns = [
                Turn(role=m["role"], content=m["content"], task_id=message.task_id or "", at=m.get("at", ""))
                for m in (record.messages if record else [])
                if m.get("role") in ("user", "assistant") and m.get("content")
            ][-_CONTEXT_TURNS:]
        return [t.model_copy(update={"content": t.content[:_CONTEXT_CHARS]}) for t in turns]

    async def give_up(self, keys: SessionKeys, taken: Taken, reason: str) -> None:
        """Set the oldest message aside: a dead letter, and an ``error`` to its sender."""
        mail = _first(taken)
        commit = self._commit(keys)
        commit.unmail([m.number for m in taken.signals])
        if mail is not None:
            commit.consume(mail.number)
            arrived = _readable(mail)
            letter = DeadLetter(
                stream=SESSION_WAKE.key(keys.shard),
                entry_id=taken.lease.wake_id,
                reason=reason,
                attempts=taken.lease.starts,
                at=rfc3339(taken.lease.now),
                fields={"data": printable(mail.body)},
                chain=[arrived[1].message_id or ""] if arrived else [],
            )
            commit.queue(DEAD, DEAD.key(keys.shard), letter)
            commit.tallies.count(metrics.dead.labels(SESSION_WAKE.name, "user"))
            if arrived is not None:
                writer = RouteWriter(commit, keys, taken, arrived[1], arrived[0], self._settings.session_ttl_s)
                writer.error(ErrorCode.INTERNAL, f"the message could not be routed: {reason}")
        await self._actors.commit(commit, taken)


def _first(taken: Taken) -> Mail | None:
    """The message that is routed now."""
    return taken.messages[0] if taken.messages else None


def _readable(mail: Mail) -> tuple[str, InboundMessage] | None:
    """The mail's message, or None when it is not one: then nobody can be told but the dead letters."""
    try:
        return read_session_mail(mail.body)
    except ValueError:
        return None
