"""What the gateway's handlers share. Made by the composition root."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_hex
from time import time_ns
from typing import Any

from pydantic_core import to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, rfc3339, shard_of
from pentad.services.gateway.edge.access import Access, EventTokens
from pentad.services.gateway.edge.problems import bad, busy
from pentad.services.gateway.memory.forgetting import Forgetting, ForgettingUndo
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.live_memory import LiveMemory
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.memory.rebuilds import MemoryRebuilds
from pentad.services.gateway.memory.reindexing import Reindexing
from pentad.services.gateway.memory.statements import Episodes, KnowledgeEdits
from pentad.services.gateway.operator.dead_letters import Letters
from pentad.services.gateway.operator.erasures import Erasures
from pentad.services.gateway.operator.instructions import InstructionRegistry
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.message_intake import MessageIntake
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.task_list import TaskList
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.keys import SessionKeys
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.work.tenant_turns import TenantTurns, TooManyWaitError


@dataclass
class Parts:
    """The gateway's inside."""

    streams: TurnStreams
    queries: Queries
    tasks: TaskList
    inbox: Inbox
    accepting: MessageIntake
    control: Control
    moving: MessageMoves
    memories: Memories
    working: LiveMemory
    episodes: Episodes
    erasures: Erasures
    forgetting: Forgetting
    unforgetting: ForgettingUndo
    reindexing: Reindexing
    rebuilds: MemoryRebuilds
    knowledge: Knowledge
    turns: TenantTurns
    """For calls of memory."""
    noting: KnowledgeEdits
    letters: Letters
    redriving: Redrives
    models: ModelRegistry
    instructions: InstructionRegistry
    book: InstructionBook
    access: Access
    tokens: EventTokens
    origins: tuple[str, ...]
    """Sites whose pages may talk to the gateway."""
    shards: int

    def session(self, tenant: str, session: str) -> SessionKeys:
        """A session's keys. Raises ``ProblemError`` (400) for what is no id."""
        if not is_external_id(session):
            raise bad(f"a session id has {EXTERNAL_ID_RULE}")
        return SessionKeys(shard_of(tenant, session, self.shards), tenant, session)

    @asynccontextmanager
    async def memory_turn(self, tenant: str) -> AsyncIterator[None]:
        """A place for one call of memory. Raises ``ProblemError`` (429) when too many of this tenant wait."""
        try:
            async with self.turns.turn(tenant):
                yield
        except TooManyWaitError as error:
            raise busy(f"too many calls of memory at once: {error}") from None

    def error(self, keys: SessionKeys, code: ErrorCode, message: str, in_doubt: bool = False, **more: Any) -> str:
        """An ``error`` event for one client alone: it has no cursor and goes by our clock, for Redis may be away.

        ``in_doubt``: what the client asked for may have happened all the same. ``more``: ``message_id``,
        ``retry_after``.
        """
        event = ErrorEvent(
            event_id=token_hex(16),
            at=rfc3339(time_ns() // 1_000_000),
            tenant_id=keys.tenant,
            session_id=keys.session,
            code=code,
            message=message,
            **more,
        )
        if not in_doubt:
            return event.to_json().decode()
        return as_text(event.model_dump(mode="json", exclude_none=True) | {"in_doubt": True})


def new_session_id() -> str:
    """A session id for a client that named none."""
    return f"s-{secrets.token_hex(12)}"


def as_text(body: Mapping[str, Any]) -> str:
    """Compact JSON."""
    return to_json(body).decode()
