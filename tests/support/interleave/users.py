"""What users do in a run: messages, repeats, rubbish, names of tasks, deadlines, budgets and cancels."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import EVENTS, INBOUND
from pentad.shared.actors.actors import Actors
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys
from pentad.shared.kinds import ControlKind
from tests.support.interleave.clockwork import VirtualLoop
from tests.support.interleave.graphs import GRAPH
from tests.support.interleave.server import Server

LIVE = ("pending", "active", "waiting", "stale")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as its sender knows it."""

    session: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The messages that were sent and the tasks that were cancelled up to some moment."""

    sent: tuple[Sent, ...]
    rubbish: tuple[bytes, ...]
    cancelled: dict[str, tuple[int | None, ...]]


@dataclass(frozen=True, slots=True)
class Habits:
    """How many messages are sent; of 1, how often a task is cancelled, how often a message names its task, how often
    a task is paused, how often a message names a graph."""

    messages: int
    cancels: float
    names: float
    pauses: float = 0.0
    graphs: float = 0.0


def events_of(server: Server, session: str) -> list[dict[str, Any]]:
    """A session's events, oldest first."""
    reply = server.ask("XRANGE", EVENTS.key(0, tenant="default", session=session), "-", "+")
    return [from_json(dict(zip(f[::2], f[1::2], strict=True))[b"data"]) for _, f in reply]


class Users:
    """The users of a run, who write straight to the server and never fail; all that they sent must be handled."""

    def __init__(self, server: Server, loop: VirtualLoop, actors: Actors, chance: Random, habits: Habits) -> None:
        self._server, self._loop, self._actors, self._chance = server, loop, actors, chance
        self._count, self._habits = habits.messages, habits
        self.sessions = ("s0", "s1", "s2")
        self.sent: list[Sent] = []
        """In the order in which the server, as it is now, got them first."""
        self.never_had = 0
        """Number of messages that a new primary never had, and that nobody sent again."""
        self.lost_rubbish: set[bytes] = set()
        self._bodies: dict[str, dict[str, Any]] = {}
        self._number = 0
        self._failovers = 0
        self.rubbish: list[bytes] = []
        self.cancelled: dict[str, tuple[int | None, ...]] = {}
        """Tasks that were live when they were cancelled, with the number of their ``task_start`` at each cancel
        (None: it grew meanwhile)."""
        self._asking: list[str] = []
        """Tasks whose cancel is being sent: the server may have it already."""

    async def write(self, seconds: float) -> None:
        """Send everything within this time, some of it in a rush, and cancel something now and then."""
        while self._number < self._count:
            await asyncio.sleep(self._chance.uniform(0, 6 * seconds / self._count))
            session = self._chance.choice(self.sessions)
            if self._chance.random() < self._habits.cancels:
                await self._cancel_and_write(session)
            if self._habits.pauses and self._chance.random() < self._habits.pauses:
                await self._pause(session)
            for _ in range(self._chance.randint(1, 4)):
                self._message(session, self._extras(session))
                await asyncio.sleep(self._chance.choice((0, 0.002, 0.01)))

    async def _cancel_and_write(self, session: str) -> None:
        """Send a cancel between two messages to the same task."""
        task = self._some_task(session)
        self._message(session, {"task_id": task} if task else {})
        await asyncio.sleep(self._chance.choice((0, 0.005, 0.02, 0.2)))
        await self.cancel(task)
        self._message(session, {"task_id": task} if task and self._chance.random() < 0.5 else {})

    async def _pause(self, session: str) -> None:
        """Pause a task, send messages, and mostly resume it; now and then in the wrong order, or twice."""
        chance, task = self._chance, self._some_task(session)
        kinds: list[ControlKind] = ["pause", "resume"] if chance.random() < 0.8 else ["resume", "pause", "pause"]
        for kind in kinds if task else ():
            with suppress(OutageError):
                await self._actors.post(TaskKeys(0, "default", task), kind, b"{}", LIVE, kind)
            await asyncio.sleep(chance.choice((0, 0.005, 0.05, 0.3)))
            if chance.random() < 0.5:
                self._message(session, {"task_id": task})

    def _message(self, session: str, extras: dict[str, Any]) -> None:
        chance, number = self._chance, self._number
        self._number += 1
        body = {"content": f"say {number}", "session_id": session, "message_id": f"u{number}"} | extras
        self.sent.append(Sent(session, f"u{number}"))
        self._bodies[f"u{number}"] = body
        self._append(body)
        if chance.random() < 0.15:  # a producer that saw no reply
            self._append(body)
        if chance.random() < 0.1:
            rubbish = to_json({"session_id": session})
            self.rubbish.append(self._server.append(INBOUND.key(), rubbish, self._loop.now_ms))

    def _append(self, body: dict[str, Any]) -> None:
        self._server.append(INBOUND.key(), to_json(body), self._loop.now_ms)

    # A failover

    def remember(self) -> Memory:
        """Return the users' messages and cancels that the server has or may have now."""
        asking = {task: (*self.cancelled.get(task, ()), None) for task in self._asking}
        return Memory(tuple(self.sent), tuple(self.rubbish), self.cancelled | asking)

    async def after_failover(self, had: Memory) -> None:
        """Go back to an earlier state of the server: lost messages are sent again or not, and kept ones, too."""
        self._failovers += 1
        lost = [s for s in self.sent if s not in had.sent]
        self.sent = list(had.sent)
        self.lost_rubbish |= set(self.rubbish) - set(had.rubbish)
        self.rubbish = list(had.rubbish)
        self.cancelled = had.cancelled
        for sent in (*had.sent[-3:], *lost):
            await asyncio.sleep(self._chance.choice((0, 0.002, 0.05)))
            again = sent not in self.sent
            if self._chance.random() < (0.8 if again else 0.2):
                if again:
                    self.sent.append(sent)
                self._append(self._bodies[sent.message_id])
            else:
                self.never_had += again

    def _extras(self, session: str) -> dict[str, Any]:
        if self._habits.graphs and self._chance.random() < self._habits.graphs:
            return {"instruction": GRAPH.name, "state": {"items": [*range(self._chance.randint(0, 5))]}}
        draw = self._chance.random()
        if draw < self._habits.names and (task := self._some_task(session)):
            return {"task_id": task}
        draw = self._chance.random()
        if draw < 0.2:
            return {"deadline": rfc3339(self._loop.now_ms + self._chance.randint(50, 2000))}
        if draw < 0.27:
            return {"budget": {"steps": 1}}
        return {}

    def _some_task(self, session: str) -> str:
        """One of the session's last tasks; '' when it has none."""
        tasks = list({e["task_id"]: None for e in events_of(self._server, session) if e["type"] == "task_start"})
        return self._chance.choice(tasks[-2:]) if tasks else ""

    async def cancel(self, task: str) -> None:
        """Cancel a task if it is live."""
        if not task:
            return
        before, failovers = self._starts(task), self._failovers
        self._asking.append(task)
        try:
            status = await self._actors.post(TaskKeys(0, "default", task), "cancel", b"{}", LIVE, "cancel")
        except OutageError:
            status, failovers = LIVE[0], -1  # nobody knows whether it was taken
        finally:
            self._asking.remove(task)
        if status in LIVE:
            same = before == self._starts(task) and failovers == self._failovers
            self.cancelled[task] = (*self.cancelled.get(task, ()), before if same else None)

    def _starts(self, task: str) -> int:
        told = [event for session in self.sessions for event in events_of(self._server, session)]
        return sum(1 for event in told if event["type"] == "task_start" and event["task_id"] == task)
