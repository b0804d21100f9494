"""Taking messages: refused while there is too much work, appended once, missed when Redis loses them (hazard 10)."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import monotonic

from contracts.commands import InboundMessage
from contracts.errors import ErrorCode
from contracts.events import ErrorEvent
from contracts.streams import INBOUND
from services.gateway.problems import busy
from shared import metrics
from shared.cancelling import cancel_all
from shared.errors import OutageError
from shared.seldom import Seldom
from shared.state.inbox import Inbox
from shared.state.keys import SessionKeys
from shared.state.store import Store, guarded

log = logging.getLogger(__name__)
_say = Seldom(log)

WAITING_LIMIT = 10_000
"""Messages that may wait, unrouted, before more are refused."""
_BUSY_S = 1.0
_TRY_S = 2.0
"""How long an append whose id makes repeating safe is tried again."""
_DOUBT_S = 5.0
"""Redis may lose what it confirmed this recently: an fsync each second, and 2 s that a write may lag behind."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that a client was told is safe."""

    at: float
    keys: SessionKeys
    entry: str
    message_id: str


class Accepting:
    """Appends messages. Raises ``ProblemError`` with 429 under back-pressure and 503 in an outage."""

    def __init__(self, inbox: Inbox, watch: "LossWatch", limit: int = WAITING_LIMIT) -> None:
        self._inbox, self._watch, self._limit = inbox, watch, limit

    async def take(self, message: InboundMessage, keys: SessionKeys) -> str:
        """Append a message; returns its message id."""
        try:
            if await self._inbox.waiting(keys.shard) >= self._limit:
                raise busy("too many messages wait to be routed: try again shortly", _BUSY_S)
            entry = await self._append(message)
        except OutageError as error:
            _say.warning("refused", "a message was refused: %s", error)
            raise busy("the store does not serve now: nothing was accepted", _BUSY_S, outage=True) from None
        metrics.published.labels(INBOUND.name, "InboundMessage").inc()
        message_id = message.message_id or entry
        self._watch.remember(Accepted(monotonic(), keys, entry, message_id))
        return message_id

    async def _append(self, message: InboundMessage) -> str:
        """A lost reply is not a lost command: only what carries its own id may be sent again."""
        limit = monotonic() + _TRY_S
        while True:
            try:
                return await self._inbox.append(message)
            except OutageError:
                if message.message_id is None or monotonic() > limit:
                    raise
            await asyncio.sleep(random.uniform(0.05, 0.2))


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
            message="the store lost this message after it was accepted: send it again",
            message_id=accepted.message_id,
        )
        await self._inbox.tell(accepted.keys, event, f"lost:{accepted.entry}")
        log.error("Redis lost message %s, which was accepted: its session was told", accepted.message_id)

    async def close(self) -> None:
        """End checks under way."""
        await cancel_all(self._checks)
