"""What users do in a run: messages, repeats, rubbish, names of tasks, deadlines, budgets and cancels."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic_core import from_json, to_json

from contracts.ids import rfc3339
from contracts.streams import EVENTS, INBOUND
from shared.state.actors import Actors
from shared.state.keys import TaskKeys
from tests.support.interleave.clockwork import VirtualLoop
from tests.support.interleave.server import Server

LIVE = ("pending", "active", "waiting")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as its sender knows it."""

    session: str
    message_id: str


def events_of(server: Server, session: str) -> list[dict[str, Any]]:
    """A session's events, oldest first."""
    reply = server.ask("XRANGE", EVENTS.key(0, tenant="default", session=session), "-", "+")
    return [from_json(dict(zip(f[::2], f[1::2], strict=True))[b"data"]) for _, f in reply]


class Users:
    """They write straight to the server and never fail; what they sent is what must come out."""

    def __init__(self, server: Server, loop: VirtualLoop, actors: Actors, chance: Random, count: int) -> None:
        self._server, self._loop, self._actors, self._chance = server, loop, actors, chance
        self._count = count
        self.sessions = ("s0", "s1", "s2")
        self.sent: list[Sent] = []
        self.rubbish: list[bytes] = []

    async def write(self, seconds: float) -> None:
        """Send everything within this time, and cancel something now and then."""
        for number in range(self._count):
            await asyncio.sleep(self._chance.uniform(0, 2 * seconds / self._count))
            self._message(number)
            if self._chance.random() < 0.15:
                await self.cancel(self._some_task())

    def _message(self, number: int) -> None:
        chance = self._chance
        session = chance.choice(self.sessions)
        body = {"content": f"say {number}", "session_id": session, "message_id": f"u{number}"} | self._extras()
        self.sent.append(Sent(session, f"u{number}"))
        self._append(body)
        if chance.random() < 0.15:  # a producer that saw no reply
            self._append(body | {"content": "again"})
        if chance.random() < 0.1:
            reply = self._server.ask("XADD", INBOUND.key(), "*", "data", to_json({"session_id": session}))
            self.rubbish.append(reply)

    def _append(self, body: dict[str, Any]) -> None:
        self._server.ask("XADD", INBOUND.key(), "*", "data", to_json(body))

    def _extras(self) -> dict[str, Any]:
        draw = self._chance.random()
        if draw < 0.15 and (task := self._some_task()):
            return {"task_id": task}
        if draw < 0.3:
            return {"deadline": rfc3339(self._loop.now_ms + self._chance.randint(50, 3000))}
        if draw < 0.36:
            return {"budget": {"steps": 1}}
        return {}

    def _some_task(self) -> str:
        session = self._chance.choice(self.sessions)
        tasks = {e["task_id"]: None for e in events_of(self._server, session) if e["type"] == "task_start"}
        return self._chance.choice(list(tasks)) if tasks else ""

    async def cancel(self, task: str) -> None:
        """Cancel it, if it is live."""
        if task:
            await self._actors.post(TaskKeys(0, "default", task), "cancel", b"{}", LIVE, "cancel")
