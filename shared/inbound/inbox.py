"""The gateway's way into the inbound stream: how full it is, the append, whether what was accepted is still there."""

import asyncio
from collections.abc import Sequence

from pydantic_core import from_json, to_json
from redis.exceptions import RedisError, ResponseError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import EVENTS, INBOUND
from pentad.shared import metrics
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.inbound.backlog import Backlog, unusable
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, bell, dedup, told
from pentad.shared.store.store import Argument, Store
from pentad.shared.store.wire import Wire

_LOOK_AT, _MAX_LOOKS = 1_000, 20
"""Entries of the inbound stream that are read at a time, and how often, in search of a message."""
_WAIT_MS = 1000
"""How long replicas may take; a client is told after that, and may send again."""

Append = tuple[Sequence[Argument], "asyncio.Future[bytes]"]


class ReplicatedAppends:
    """Over a connection of its own: WAIT speaks of its connection's writes, and holds back all that is asked behind it.

    What comes while one WAIT is under way goes together, behind it, with one WAIT for all.
    """

    def __init__(self, store: Store, replicas: int) -> None:
        self._store, self._replicas = store, replicas
        self._wire = Wire(store.url)
        self._queue: list[Append] = []
        self._sender: asyncio.Task[None] | None = None

    async def append(self, *command: Argument) -> bytes:
        """Execute an XADD; returns the entry's id once enough replicas have it.

        Raises ``OutageError``: then the entry may be there all the same.
        """
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._queue.append((command, done))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await done

    async def _send(self) -> None:
        batch: list[Append] = []
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._send_together(batch)
        finally:
            self._sender = None
            for _, done in batch:
                done.cancel()  # what has no outcome yet

    async def _send_together(self, batch: Sequence[Append]) -> None:
        reads = [self._store.read(self._wire, *command) for command, _ in batch]
        wait = self._store.read(self._wire, "WAIT", self._replicas, _WAIT_MS)
        *entries, confirmed = await asyncio.gather(*reads, wait, return_exceptions=True)
        if isinstance(confirmed, RefusedWriteError | RedisError):  # the WAIT was: the entries are there
            confirmed = OutageError(f"whether replicas have a message is not known: {confirmed}")
        if not isinstance(confirmed, BaseException) and confirmed < self._replicas:
            confirmed = self._store.refused(
                f"{confirmed} of {self._replicas} replicas have a message within {_WAIT_MS / 1000:g} s"
                " (PENTAD_REDIS_REPLICAS)"
            )
        for (_, done), entry in zip(batch, entries, strict=True):
            if done.done():
                continue
            if isinstance(entry, BaseException):
                done.set_exception(entry)
            elif isinstance(confirmed, BaseException):
                done.set_exception(confirmed)
            else:
                done.set_result(entry)

    async def close(self) -> None:
        """Close the connection; appends under way are cancelled."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
        for _, done in self._queue:
            done.cancel()
        await self._wire.close()


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

    async def waits(self, keys: SessionKeys, message_id: str) -> bool:
        """Whether a message of this id is in the inbound stream and has not been moved into its session yet."""
        named, end = to_json(message_id), "+"
        for _ in range(_MAX_LOOKS):
            page = await self._store.call("XREVRANGE", INBOUND.key(), end, "-", "COUNT", _LOOK_AT)
            for _, fields in page:
                if named in fields[1] and _names(fields[1], keys, message_id):
                    return True
            if len(page) < _LOOK_AT:
                return False
            end = f"({page[-1][0].decode()}"
        return False

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


def _names(data: bytes, keys: SessionKeys, message_id: str) -> bool:
    """Whether an entry is the message of this id, of this session."""
    try:
        body = from_json(data)
    except ValueError:
        return False
    if not isinstance(body, dict):
        return False
    whose = body.get("tenant_id") or "default", body.get("session_id"), body.get("message_id")
    return whose == (keys.tenant, keys.session, message_id)
