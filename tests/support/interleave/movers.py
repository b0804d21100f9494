"""Movers: people who move messages between the tasks of their session, and repeat a request without an answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pydantic_core import from_json

from pentad.contracts.streams import EVENTS
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.mail import NEW_TASK
from pentad.shared.errors import OutageError
from pentad.shared.records.record_store import Records
from tests.support.interleave.processes import Parts, Process

_PAUSE_S = 0.12
_SESSIONS = ("s0", "s1", "s2")


class Mover(Process):
    """A person who moves one of the last messages now and then. A killed one may have sent its request."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._outside, self._ledger = parts.outside, parts.ledger
        self._moving = MessageMoves(parts.store, Queries(parts.store, Records(parts.settings.records_url), 1))

    def start(self) -> None:
        self._spawn(self._work())

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return ()

    def stop(self) -> None:
        """They are killed in the middle, and by nothing else."""
        self.kill()
        self.stopped = True

    async def _work(self) -> None:
        own = self._outside.own
        while True:
            await asyncio.sleep(own.expovariate(1 / _PAUSE_S))
            if not self._outside.calm:
                try:
                    await self._move_something(own.choice(_SESSIONS))
                except (OutageError, ProblemError):
                    continue

    async def _move_something(self, session: str) -> None:
        key = EVENTS.key(0, tenant="default", session=session)
        events = [from_json(fields[1]) for _, fields in await self.store.call("XRANGE", key, "-", "+")]
        held = holders(events)
        if not held:
            return
        own = self._outside.own
        message = own.choice(list(held)[-3:])
        tasks = list(dict.fromkeys(e["task_id"] for e in events if e["type"] == "task_start"))
        to = own.choice([NEW_TASK, *tasks[-3:]])
        for _ in range(own.choice((1, 1, 2))):
            await self._moving.move("default", held[message], MoveRequest(message, to))
        self._ledger.moved.append((message, held[message]))


def holders(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return the task of each message by the clients' events."""
    held: dict[str, str] = {}
    for event in events:
        if event["type"] == "message_routed" and event["decision"] != "rejected":
            held[event["message_id"]] = event["task_id"]
        elif event["type"] == "message_moved":
            held[event["message_id"]] = event["to_task_id"]
    return held
