"""The intake of messages: refused while too many wait, appended once, reported if Redis loses them (hazard 10)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_hex
from time import monotonic
from typing import Any

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful, invalid
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.webhooks.webhook_registry import WebhookRegistry
from pentad.shared import metrics
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.event_loop import cancel_all
from pentad.shared.immutable import immutable
from pentad.shared.inbound.arrival import another_message, message_digest
from pentad.shared.inbound.backlog import UnusableError
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store, guarded
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

WAITING_LIMIT = 10_000
"""Messages that may wait for a step before more are refused; messages of paused tasks do not count."""
PARKED_LIMIT = 1_000
"""Messages of one session that may wait for paused tasks. The limit of a tenant is that of its waiting messages."""
_BUSY_S = 1.0
"""Seconds after which a client may send again when too many messages wait."""
_PAUSED_S = 60.0
"""Seconds after which a client may send again when its tasks are paused: a person must resume them first."""
_DOUBT_S = 5.0
"""Seconds within which Redis may lose confirmed writes: it syncs each second, and a sync may be 2 s late."""


@immutable
class Accepted:
    """A message whose client was told that it is accepted."""

    at: float
    keys: SessionKeys
    entry: str
    message_id: str


def new_session_id() -> str:
    """Return a session id for a client that named none."""
    return f"s-{token_hex(12)}"


def new_message_id() -> str:
    """Return an id for a message whose client gave none, under which the message may be sent again."""
    return f"m-{token_hex(12)}"


class MessageIntake:
    """Appends messages to the inbound stream. Raises ``ProblemError``: 429 under back-pressure, 503 in an outage."""

    def __init__(
        self,
        inbox: Inbox,
        watch: "LossWatch",
        webhooks: WebhookRegistry,
        tenant_share: float,
        limit: int = WAITING_LIMIT,
    ) -> None:
        self._inbox, self._watch, self._webhooks = inbox, watch, webhooks
        self._tenant_share, self._limit = tenant_share, limit

    async def accept(self, message: InboundMessage, keys: SessionKeys) -> str:
        """Append a message that has an id, and return the id."""
        message_id = message.message_id
        assert message_id is not None
        if message.output_schema is not None:
            await _check_output(message.output_schema)
        try:
            message = await persist(partial(self._webhooks.prepared, message, keys))
            full = await self._full(keys)
            parked = await self._parked(keys) if full is None else None
        except UnusableError as error:
            raise unusable(error) from None
        except OutageError as error:
            _say.warning("refused", "a message was refused: %s", error)
            raise not_appended() from None
        if full is not None:
            raise busy(f"too many messages{full} wait to be worked on: try again shortly", _BUSY_S)
        if parked is not None:
            raise busy(f"{parked} lie with paused tasks: resume these, or cancel them, before you send more", _PAUSED_S)
        entry = await self._append(message)
        metrics.published.labels(INBOUND.name, "InboundMessage").inc()
        self._watch.remember(Accepted(monotonic(), keys, entry, message_id))
        return message_id

    async def is_repeat(self, message: InboundMessage, keys: SessionKeys) -> bool:
        """Return whether the message's id was accepted before. Raises ``ProblemError`` (409) for another text."""
        try:
            accepted = await persist(lambda: self._inbox.accepted_text(keys, message.message_id or ""))
        except OutageError:
            raise not_appended() from None
        sent = message_digest(message)
        if accepted and accepted != sent:
            raise ProblemError(409, another_message(accepted, sent), ErrorCode.BAD_MESSAGE)
        return accepted is not None

    async def was_accepted(self, keys: SessionKeys, message_id: str) -> bool:
        """Return whether a message of this id was accepted, as long as that is known."""
        try:
            moved = await persist(lambda: self._inbox.accepted_text(keys, message_id)) is not None
            return moved or await persist(lambda: self._inbox.waits(keys, message_id))
        except OutageError:
            raise busy("Redis is unavailable", _BUSY_S, outage=True) from None

    async def _full(self, keys: SessionKeys) -> str | None:
        """Return words for whose messages fill the limit, '' for those of all tenants; None while there is room."""
        backlog, share = self._inbox.backlog, self._tenant_share * self._limit
        waiting = backlog.known(keys.shard)
        if waiting is None:
            waiting = await persist(lambda: backlog.all(keys.shard))
        if waiting >= share and await persist(lambda: backlog.of(keys.shard, keys.tenant)) >= share:
            return " of yours"
        return "" if waiting >= self._limit else None

    async def _parked(self, keys: SessionKeys) -> str | None:
        """Return words for the messages of paused tasks that fill a limit; None while there is room."""
        backlog, share = self._inbox.backlog, self._tenant_share * self._limit
        if backlog.parked(keys.shard) < min(PARKED_LIMIT, share):
            return None
        tenant, session = await persist(lambda: backlog.parked_of(keys))
        if session >= PARKED_LIMIT:
            return f"{session} messages of this session"
        return f"{tenant} messages of yours" if tenant >= share else None

    async def _append(self, message: InboundMessage) -> str:
        """Append the message, and return its entry. Its id makes it one message, however often it is appended."""
        try:
            return await persist(lambda: self._inbox.append(message))
        except UnusableError as error:
            raise unusable(error) from None
        except RefusedWriteError as error:
            _say.warning("refused", "a message was refused: %s", error)
            raise not_appended() from None
        except OutageError as error:
            _say.warning("doubt", "a message may have been appended: %s", error)
            raise doubtful(
                "Redis did not answer, so the message may have been accepted or not: send it again with the same "
                "message_id, and it is accepted once"
            ) from None


async def _check_output(schema: Mapping[str, Any]) -> None:
    """Refuse what is no schema of an answer. Raises ``ProblemError``: 422, or 503 where it cannot be checked now."""
    from pentad.shared.instructions.output import Output

    try:
        await Output(schema).prove_off_loop()
    except ValueError as error:
        raise invalid(f"output_schema: {error}") from None
    except OutageError as error:
        raise busy(f"{error}. Nothing was appended", _BUSY_S, outage=True) from None


def unusable(error: UnusableError) -> ProblemError:
    """Return a refusal of all messages until a person has mended the fault."""
    _say.error("unusable", "a message was refused: %s", error)
    return busy(f"{error}. Nothing was appended", _BUSY_S, outage=True)


def not_appended() -> ProblemError:
    """Return a refusal of a message of which nothing was written."""
    text = "Redis is unavailable, and nothing was appended: send it again with the same message_id"
    return busy(text, _BUSY_S, outage=True)


class LossWatch:
    """Remembers recently accepted messages and checks after each new connection to Redis that they still exist."""

    def __init__(self, store: Store, inbox: Inbox, answered_at: Callable[[], float]) -> None:
        self._store, self._inbox, self._answered_at = store, inbox, answered_at
        self._recent: deque[Accepted] = deque()
        self._checks: set[asyncio.Task[None]] = set()

    def remember(self, accepted: Accepted) -> None:
        """Keep the message in doubt until Redis has answered over one connection for some seconds more."""
        safe = self._answered_at() - _DOUBT_S
        while self._recent and self._recent[0].at < safe:
            self._recent.popleft()
        self._recent.append(accepted)

    def suspect(self) -> None:
        """Check the messages after a new connection: it may be another Redis, or one that lost its last writes."""
        if self._recent:
            check = asyncio.create_task(self._check(list(self._recent)))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check(self, suspects: list[Accepted]) -> None:
        for suspect in suspects:
            await guarded("a look for what was accepted", partial(self._look, suspect))

    async def _look(self, accepted: Accepted) -> None:
        if await self._inbox.holds(accepted.keys, accepted.entry, accepted.message_id):
            return
        event = ErrorEvent(
            event_id=token_hex(16),
            at=await self._store.now(),
            tenant_id=accepted.keys.tenant,
            session_id=accepted.keys.session,
            correlation_id=accepted.message_id,
            code=ErrorCode.INTERNAL,
            message="Redis lost this message after it was accepted: send it again",
            message_id=accepted.message_id,
        )
        await self._inbox.tell(accepted.keys, event, f"lost:{accepted.entry}")
        log.error("Redis lost message %s, which was accepted: its session was told", accepted.message_id)

    async def close(self) -> None:
        """Cancel the running checks."""
        await cancel_all(self._checks)
