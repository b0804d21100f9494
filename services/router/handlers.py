"""Handles the wake-up of a session: routes its oldest message, in one commit."""

import asyncio
import logging
import random
from dataclasses import replace

from pentad.contracts.streams import DEAD, SESSION_WAKE
from pentad.services.router.message_router import IncomingMessage, MessageRouter
from pentad.shared import metrics
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.headers import Mail, pairs
from pentad.shared.actors.leases import Held, LeaseKeeper
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.actors.session_header import session_header
from pentad.shared.errors import OutageError
from pentad.shared.keys import SessionKeys
from pentad.shared.kinds import USER
from pentad.shared.settings import Settings
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.dead_letters import chain_of, make_letter
from pentad.shared.work.wake_ups import WakeUps

log = logging.getLogger(__name__)
_throttled = ThrottledLog(log)

_OUTAGE_S = 0.5
"""Seconds between attempts while a store is down; these attempts are not counted (hazard 7)."""


class RouterHandler(WakeUps[SessionKeys]):
    """Handles wake-ups of sessions: many at once, and each session by one router at a time, by its lease."""

    failing = USER

    def __init__(
        self, actors: Actors, keeper: LeaseKeeper, message_router: MessageRouter, settings: Settings, shard: int
    ) -> None:
        super().__init__(actors, keeper, shard, settings.pentad_max_attempts)
        self._router = message_router

    def keys_of(self, tenant: str, name: str) -> SessionKeys:
        return SessionKeys(self._shard, tenant, name)

    async def wait(self, keys: SessionKeys, taken: Taken, error: OutageError) -> None:
        """Give the session back after a pause, without counting the attempt: another store may be unavailable."""
        _throttled.warning("routing", "routing in %s waits: %s", keys.actor, error)
        await asyncio.sleep(_OUTAGE_S * random.uniform(0.5, 1.0))
        await self._actors.release(keys, taken.lease.wake_id, taken.lease.token)

    async def serve(self, keys: SessionKeys, taken: Taken, held: Held) -> None:
        """Route the session's oldest message."""
        mail = _first(taken)
        if mail is None:
            commit = self._router.commit(keys)
            commit.unmail([m.number for m in taken.signals])
            await self._actors.commit(commit, taken)
            return
        incoming = _message_of(keys, mail)
        while True:
            now = taken.lease.now
            session = session_header(taken.raw)
            view = await self._router.look(incoming, session, now)
            route, updates = await self._router.route(incoming, session, view)
            commit = self._router.commit(keys)
            if route.decision in ("rejected", "control"):
                commit.consume(mail.number)
            else:
                commit.pass_on(mail.number)
            await self._router.write(commit, incoming, session, view, route, updates)
            if await self._actors.commit(commit, taken) != "overtaken":
                return
            taken = replace(taken, raw=pairs(await self._actors.store.call("HGETALL", keys.header)))

    async def give_up(self, keys: SessionKeys, taken: Taken, reason: str, attempts: int) -> None:
        """Set the oldest message aside as a dead letter, with an ``error`` to its sender."""
        mail = _first(taken)
        commit = self._router.commit(keys)
        commit.unmail([m.number for m in taken.signals])
        if mail is not None:
            commit.consume(mail.number)
            arrived = _readable(keys, mail)
            letter = make_letter(
                "session_mail",
                SESSION_WAKE.key(keys.shard),
                taken.lease.wake_id,
                [(f"{mail.number} {mail.kind}", mail.body)],
                reason=reason,
                attempts=attempts,
                at=await self._actors.store.now(),
                whom={"tenant_id": keys.tenant, "session_id": keys.session},
                chain=chain_of(message=arrived.message.message_id or "") if arrived else [],
            )
            commit.queue(DEAD, DEAD.key(keys.shard), letter)
            commit.tallies.count(metrics.dead.labels(SESSION_WAKE.name, USER))
            if arrived is not None:
                writer = self._router.writer(commit, arrived, taken.lease.now)
                writer.failed(f"the message could not be routed: {reason}")
        await self._actors.commit(commit, taken)


def _first(taken: Taken) -> Mail | None:
    """The oldest message, which is routed now."""
    return taken.messages[0] if taken.messages else None


def _message_of(keys: SessionKeys, mail: Mail) -> IncomingMessage:
    entry_id, message = read_session_mail(mail.body)
    return IncomingMessage(keys, message, entry_id)


def _readable(keys: SessionKeys, mail: Mail) -> IncomingMessage | None:
    """The message in this mail; None when it cannot be read, so that only the dead letter tells of it."""
    try:
        return _message_of(keys, mail)
    except ValueError:
        return None
