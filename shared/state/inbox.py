"""The gateway's way into the inbound stream: how full it is, the append, whether what was accepted is still there."""

import logging
from time import monotonic

from redis.exceptions import ResponseError

from contracts.commands import InboundMessage
from contracts.events import ErrorEvent
from contracts.streams import INBOUND
from shared.errors import PentadError
from shared.state.keys import DEDUP_TTL_S, SessionKeys, bell, dedup, load
from shared.state.replicated import ReplicatedAppends
from shared.state.store import Store

log = logging.getLogger(__name__)

_GROUP = (INBOUND.group or "").encode()
_FRESH_S = 0.25
_COUNTED = 20_000
"""Entries that are counted one by one, where Redis has lost count: more than any limit."""


class UnusableError(PentadError):
    """The inbound stream takes nothing until a person has mended it. Nothing was appended; trying again is no use."""


class Inbox:
    """Redis as a producer of messages sees it. All raise ``OutageError`` when it does not serve."""

    def __init__(self, store: Store, events_maxlen: int, events_ttl_s: int, replicas: int = 0) -> None:
        self._store = store
        self._maxlen, self._ttl = events_maxlen, events_ttl_s
        self._replicated = ReplicatedAppends(store, replicas) if replicas else None
        self._waiting: dict[int, tuple[float, int]] = {}

    async def append(self, message: InboundMessage) -> str:
        """Append a message; returns its entry id. Sending it again is safe only when it has a ``message_id``.

        Raises ``UnusableError`` when the stream takes nothing, whoever asks.
        """
        append = self._store.call if self._replicated is None else self._replicated.append
        try:
            entry: bytes = await append("XADD", INBOUND.key(), "*", "data", message.to_json())
        except ResponseError as error:
            raise _unusable(error) from None
        return entry.decode()

    async def close(self) -> None:
        """Close what is its own."""
        if self._replicated is not None:
            await self._replicated.close()

    async def waiting(self, keys: SessionKeys) -> int:
        """Messages that no router has moved yet, or that wait in the shard to be decided; a quarter second old."""
        read_at, number = self._waiting.get(keys.shard, (float("-inf"), 0))
        if monotonic() - read_at > _FRESH_S:
            number = max(await self._lag(), await self._mail(keys.shard))
            self._waiting[keys.shard] = (monotonic(), number)
        return number

    async def _lag(self) -> int:
        """What our group has not read. What another group has not read is its own affair."""
        try:
            groups = await self._store.call("XINFO", "GROUPS", INBOUND.key())
        except ResponseError as error:
            if "no such key" not in str(error):
                raise _unusable(error) from None
            return 0
        read = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in groups)
        ours = next((group for group in read if group[b"name"] == _GROUP), None)
        if ours is None:  # no router has begun
            return int(await self._store.call("XLEN", INBOUND.key()))
        lag = ours[b"lag"]
        if lag is None:  # somebody has deleted entries that the group had not read
            lag = await self._store.run("lag", [INBOUND.key()], [ours[b"last-delivered-id"], _COUNTED])
        return int(lag)

    async def _mail(self, shard: int) -> int:
        return int(await self._store.call("HGET", load(shard), "mail") or 0)

    async def first_entry(self, keys: SessionKeys, message_id: str) -> str | None:
        """The inbound entry that a message id was first accepted with, or None when it is new."""
        entry = await self._store.call("GET", dedup(keys.shard, keys.tenant, keys.session, message_id))
        return None if entry is None else entry.decode()

    async def holds(self, keys: SessionKeys, entry: str, message_id: str) -> bool:
        """Whether an accepted entry is in the inbound stream, or its message has been moved into its session."""
        if await self._store.call("XRANGE", INBOUND.key(), entry, entry):
            return True
        return await self.first_entry(keys, message_id) is not None

    async def tell(self, keys: SessionKeys, event: ErrorEvent, once: str) -> None:
        """Append an event to a session, once per ``once``; may be sent again."""
        guard = dedup(keys.shard, keys.tenant, keys.session, once)
        args = (DEDUP_TTL_S, event.to_json(), self._maxlen, self._ttl, keys.actor)
        await self._store.run("tell_once", [guard, keys.events, bell(keys.shard)], args)


def _unusable(error: ResponseError) -> UnusableError:
    """A refusal that no waiting ends, in words for whoever sends messages; the rest of it is for the operator's log."""
    if "exhausted the last possible ID" in str(error):
        return UnusableError("the inbound stream has no entry ids left: its operator must run `pentad inbound renew`")
    log.error("%s does not take messages: %s", INBOUND.key(), error)
    return UnusableError("the inbound stream takes no messages: its operator finds the cause in the gateway's log")
