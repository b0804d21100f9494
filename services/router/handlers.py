"""A session's wake-up becomes a routed message: read the candidates, decide, commit."""

import asyncio
import logging
import random
from dataclasses import replace

from pentad.contracts.streams import DEAD, SESSION_WAKE
from pentad.services.router.deciding import Deciding, IncomingMessage
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
_say = ThrottledLog(log)

_OUTAGE_S = 0.5
"""A store that is down is asked again this often; nothing is counted (hazard 7)."""


class RouterHandler(WakeUps[SessionKeys]):
    """Serves sessions' wake-ups. Many at once; one session at a time, by its lease."""

    failing = USER

    def __init__(self, actors: Actors, keeper: LeaseKeeper, deciding: Deciding, settings: Settings, shard: int) -> None:
        super().__init__(actors, keeper, shard, settings.pentad_max_attempts)
        self._deciding = deciding

    def keys_of(self, tenant: str, name: str) -> SessionKeys:
        return SessionKeys(self._shard, tenant, name)

    async def wait(self, keys: SessionKeys, taken: Taken, error: OutageError) -> None:
        """After a pause any router may try again, and this was no start: it may be another store that is away."""
        _say.warning("routing", "routing in %s waits: %s", keys.actor, error)
        await asyncio.sleep(_OUTAGE_S * random.uniform(0.5, 1.0))
        await self._actors.release(keys, taken.lease.wake_id, taken.lease.token)

    async def serve(self, keys: SessionKeys, taken: Taken, held: Held) -> None:
        """Route the oldest message."""
        mail = _first(taken)
        if mail is None:
            commit = self._deciding.commit(keys)
            commit.unmail([m.number for m in taken.signals])
            await self._actors.commit(commit, taken)
            return
        said = _said(keys, mail)
        while True:
            now = taken.lease.now
            session = session_header(taken.raw)
            view = await self._deciding.look(said, session, now)
            route, learnt = await self._deciding.route(said, session, view)
            commit = self._deciding.commit(keys)
            if route.decision in ("rejected", "control"):
                commit.consume(mail.number)
            else:
                commit.pass_on(mail.number)
            await self._deciding.write(commit, said, session, view, route, learnt)
            if await self._actors.commit(commit, taken) != "overtaken":
                return
            taken = replace(taken, raw=pairs(await self._actors.store.call("HGETALL", keys.header)))

    async def give_up(self, keys: SessionKeys, taken: Taken, reason: str, attempts: int) -> None:
        """Set the oldest message aside: a dead letter, and an ``error`` to its sender."""
        mail = _first(taken)
        commit = self._deciding.commit(keys)
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
                writer = self._deciding.writer(commit, arrived, taken.lease.now)
                writer.failed(f"the message could not be routed: {reason}")
        await self._actors.commit(commit, taken)


def _first(taken: Taken) -> Mail | None:
    """The message that is routed now."""
    return taken.messages[0] if taken.messages else None


def _said(keys: SessionKeys, mail: Mail) -> IncomingMessage:
    entry_id, message = read_session_mail(mail.body)
    return IncomingMessage(keys, message, entry_id)


def _readable(keys: SessionKeys, mail: Mail) -> IncomingMessage | None:
    """The mail's message, or None when it is not one: then nobody can be told but the dead letters."""
    try:
        return _said(keys, mail)
    except ValueError:
        return None
