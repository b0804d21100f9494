"""MessageIntake messages: refused while too much waits, appended once, reported when Redis loses them (hazard 10)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from secrets import token_hex
from time import monotonic

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful
from pentad.services.gateway.tasks.patience import persist
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
"""Messages that may wait to be taken into a step before more are refused; not those that lie with paused tasks."""
PARKED_LIMIT = 1_000
"""Messages of one session that may lie with paused tasks. A tenant may have as many as it may have waiting."""
_BUSY_S = 1.0
_PAUSED_S = 60.0
"""Until a person resumes a task it may take much longer."""
_DOUBT_S = 5.0
"""Redis may lose what it confirmed this recently: an fsync each second, and 2 s that a write may lag behind."""


@immutable
class Accepted:
    """A message that a client was told is safe."""

    at: float
    keys: SessionKeys
    entry: str
    message_id: str


def new_session_id() -> str:
    """A session id for a client that named none."""
    return f"s-{token_hex(12)}"


def new_message_id() -> str:
    """For a message whose sender gave none: whatever happens, it may be sent again under it."""
    return f"m-{token_hex(12)}"


class MessageIntake:
    """Appends messages. Raises ``ProblemError`` with 429 under back-pressure and 503 in an outage."""

    def __init__(self, inbox: Inbox, watch: "LossWatch", tenant_share: float, limit: int = WAITING_LIMIT) -> None:
        self._inbox, self._watch, self._tenant_share, self._limit = inbox, watch, tenant_share, limit

    async def accept(self, message: InboundMessage, keys: SessionKeys) -> str:
        """Append a message that has an id; returns the id."""
        message_id = message.message_id
        assert message_id is not None
        try:
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
        """Whether its id has been accepted. Raises ``ProblemError``: 409 where that was with another text."""
        try:
            accepted = await persist(lambda: self._inbox.accepted_text(keys, message.message_id or ""))
        except OutageError:
            raise not_appended() from None
        sent = message_digest(message)
        if accepted and accepted != sent:
            raise ProblemError(409, another_message(accepted, sent), ErrorCode.BAD_MESSAGE)
        return accepted is not None

    async def _full(self, keys: SessionKeys) -> str | None:
        """Whose messages fill the limit ('' for everybody's); None while there is room."""
        backlog, share = self._inbox.backlog, self._tenant_share * self._limit
        waiting = backlog.known(keys.shard)
        if waiting is None:
            waiting = await persist(lambda: backlog.all(keys.shard))
        if waiting >= share and await persist(lambda: backlog.of(keys.shard, keys.tenant)) >= share:
            return " of yours"
        return "" if waiting >= self._limit else None

    async def _parked(self, keys: SessionKeys) -> str | None:
        """Whose messages lie with paused tasks, when these are as many as may; nobody else's are held up by them."""
        backlog, share = self._inbox.backlog, self._tenant_share * self._limit
        if backlog.parked(keys.shard) < min(PARKED_LIMIT, share):
            return None
        tenant, session = await persist(lambda: backlog.parked_of(keys))
        if session >= PARKED_LIMIT:
            return f"{session} messages of this session"
        return f"{tenant} messages of yours" if tenant >= share else None

    async def _append(self, message: InboundMessage) -> str:
        """A lost reply is not a lost command: the id makes it one message, however often it is appended."""
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


def unusable(error: UnusableError) -> ProblemError:
    """Nobody's messages are taken until a person has mended it."""
    _say.error("unusable", "a message was refused: %s", error)
    return busy(f"{error}. Nothing was appended", _BUSY_S, outage=True)


def not_appended() -> ProblemError:
    """The store refuses: this sending has left nothing behind."""
    text = "Redis is unavailable, and nothing was appended: send it again with the same message_id"
    return busy(text, _BUSY_S, outage=True)


class LossWatch:
    """Remembers what was accepted lately and, after each new connection to Redis, looks whether it is still there."""

    def __init__(self, store: Store, inbox: Inbox, answered_at: Callable[[], float]) -> None:
        self._store, self._inbox, self._answered_at = store, inbox, answered_at
        self._recent: deque[Accepted] = deque()
        self._checks: set[asyncio.Task[None]] = set()

    def remember(self, accepted: Accepted) -> None:
        """Doubt it until Redis has answered, over one connection, for some seconds more."""
        safe = self._answered_at() - _DOUBT_S
        while self._recent and self._recent[0].at < safe:
            self._recent.popleft()
        self._recent.append(accepted)

    def suspect(self) -> None:
        """There is a new connection to Redis: it may be another Redis, or one that lost its tail."""
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
        """End checks under way."""
        await cancel_all(self._checks)
