"""The gateway's way into the inbound stream: how full it is, the append, whether what was accepted is still there."""

from redis.exceptions import ResponseError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import EVENTS, INBOUND
from pentad.shared import metrics
from pentad.shared.inbound.backlog import Backlog, unusable
from pentad.shared.inbound.replicated import ReplicatedAppends
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, bell, dedup, told
from pentad.shared.store.store import Store


class Inbox:
    """Redis as a producer of messages sees it. All raise ``OutageError`` when it is unavailable."""

    def __init__(self, store: Store, events_maxlen: int, events_ttl_s: int, replicas: int = 0) -> None:
        self._store = store
        self._maxlen, self._ttl = events_maxlen, events_ttl_s
        self._replicated = ReplicatedAppends(store, replicas) if replicas else None
        self.backlog = Backlog(store)

    async def append(self, message: InboundMessage) -> str:
        """Append a message; returns its entry id. Sending it again is safe only when it has a ``message_id``.

        Raises ``UnusableError`` when the stream takes nothing, whoever asks.
        """
        append = self._store.call if self._replicated is None else self._replicated.append
        try:
            entry: bytes = await append("XADD", INBOUND.key(), "*", "data", message.to_json())
        except ResponseError as error:
            raise unusable(error) from None
        self.backlog.appended(entry, message.tenant_id)
        return entry.decode()

    async def close(self) -> None:
        """Close what is its own."""
        if self._replicated is not None:
            await self._replicated.close()

    async def accepted_text(self, keys: SessionKeys, message_id: str) -> str | None:
        """Digest of the text that this message id was accepted with; '' where that is not known, None for a new id."""
        mark = await self._store.call("GET", dedup(keys.shard, keys.tenant, keys.session, message_id))
        return None if mark is None else mark.decode(errors="replace").partition(" ")[2]

    async def holds(self, keys: SessionKeys, entry: str, message_id: str) -> bool:
        """Whether an accepted entry is in the inbound stream, or its message has been moved into its session."""
        if await self._store.call("XRANGE", INBOUND.key(), entry, entry):
            return True
        return await self.accepted_text(keys, message_id) is not None

    async def tell(self, keys: SessionKeys, event: ErrorEvent, once: str) -> None:
        """Append an event to a session, once per ``once``; may be sent again."""
        guard = told(keys.shard, keys.tenant, keys.session, once)
        args = (DEDUP_TTL_S, event.to_json(), self._maxlen, self._ttl, keys.actor)
        done = await self._store.run("tell_once", [guard, keys.events, bell(keys.shard)], args)
        metrics.published.labels(EVENTS.name, ErrorEvent.__name__).inc(done)
