"""Inbound entries that are refused: told to their session when it is known, and set aside, each once."""

import logging
from dataclasses import replace

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import EVENTS, INBOUND, INBOUND_DEAD
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import entry_order, mark_at
from pentad.shared.inbound.arrival import Arrival, another_message, message_digest
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, bell, buried, dedup, told
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.dead_letters import chain_of, count_letter, make_letter
from pentad.shared.work.entry import printable

log = logging.getLogger(__name__)


class Refusing:
    """Both writes are guarded by the id that the entry had first, so a repeat writes nothing."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    async def refuse(self, arrival: Arrival) -> None:
        """Tell, and set aside; nothing is done with what was said in a session before it was erased."""
        if arrival.session is not None and await self._is_erased(arrival.session, arrival.first_id):
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

    async def _is_erased(self, session: SessionKeys, entry: str) -> bool:
        mark = await mark_at(self._store, session.erased)
        return mark is not None and entry_order(entry) <= entry_order(mark.entry)

    async def _tell(self, session: SessionKeys, arrival: Arrival) -> None:
        event = ErrorEvent(
            event_id=f"e-{arrival.first_id}",
            at=arrival.at,
            tenant_id=session.tenant,
            session_id=session.session,
            causation_id=arrival.first_id,
            code=ErrorCode.BAD_MESSAGE,
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
