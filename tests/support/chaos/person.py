"""A person with several tasks in one session, who answers, pauses tasks, and moves messages out of wrong tasks.

The next action follows only from the session's events: an action that a failover has undone is done again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from httpx2 import AsyncClient, HTTPError

from tests.support.chaos.several_model import SeveralModel
from tests.support.chaos.talk import Saying, Talk, one_more, user_of
from tests.support.clients.follower import Event, Follower

_AGAIN_S = 1.0
"""Seconds after which a request without effect is repeated."""
_LOOK_S = 0.05


class Situation:
    """The state of a session by its events."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.holder: dict[str, str] = {}
        """Task of each message, by the message's id."""
        self.state: dict[str, str] = {}
        """State of each task: ``working``, ``ended``, or the reason why it waits."""
        self.paused: set[str] = set()
        """Tasks that were ever paused."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        kind, task = event["type"], event.get("task_id") or ""
        if kind == "message_routed" and task:
            self._gets(event["message_id"], task)
        elif kind == "message_moved":
            self._gets(event["message_id"], event["to_task_id"])
        elif kind == "task_start":
            self.state[task] = "working"
        elif kind == "task_end":
            self.state[task] = "ended"
        elif kind == "task_status":
            self.state[task] = "working" if event["status"] == "active" else event["reason"]
            if event["reason"] == "paused":
                self.paused.add(task)

    def _gets(self, message: str, task: str) -> None:
        self.holder[message] = task
        self.state[task] = "working"

    def turn_is_over(self, task: str) -> bool:
        """Return whether the task has ended or waits for an answer."""
        return self.state.get(task) in ("ended", "question")


class Person:
    """A person in one session. ``follower``: the client of the person."""

    def __init__(
        self, session: int, talk: Talk, follower: Follower, gateways: Callable[[], Sequence[str]], model: SeveralModel
    ) -> None:
        self._session, self.talk, self.follower, self._gateways, self._model = session, talk, follower, gateways, model
        self._sent: list[Saying] = []
        self._asked: dict[str, float] = {}
        """Time of the last attempt of each request."""
        self.extra: list[Saying] = []
        """Additional messages to tasks that still had a question at the end."""
        self.put_right: set[str] = set()
        """Ids of messages that were routed to a wrong task."""

    @property
    def settled(self) -> bool:
        """Whether all messages are sent and in their tasks, and all tasks have ended."""
        now = Situation(self.follower.events)
        said = len(self._sent) >= len(self.talk.all) and all(s.message_id in now.holder for s in self._sent)
        return said and self._wrong(now) is None and all(state == "ended" for state in now.state.values())

    async def converse(self) -> None:
        """Act until the session is settled."""
        while not self.settled:
            await self._act(Situation(self.follower.events))
            await asyncio.sleep(_LOOK_S)

    async def _act(self, now: Situation) -> None:
        """Do the next action, if there is one."""
        if any(saying.message_id not in now.holder for saying in self._sent):
            return
        if len(self._sent) < len(self.talk.first):
            await self._say(self.talk.first[len(self._sent)])
        elif (wrong := self._wrong(now)) is not None:
            saying, to = wrong
            await self._ask(f"{now.holder[saying.message_id]}/move", {"message_id": saying.message_id, "to": to})
        elif (control := self._control(now)) is not None:
            await self._ask(control)
        elif (following := self._next(now)) is not None:
            await self._say(following)
        elif len(self._sent) >= len(self.talk.all):
            await self._say_one_more(now)

    def _wrong(self, now: Situation) -> tuple[Saying, str] | None:
        """Return a message in a wrong task and the task where it belongs, or None."""
        homes: list[str] = []
        for saying in self.talk.first:
            home = now.holder.get(saying.message_id)
            if home is None:
                return None
            if home in homes:
                self.put_right.add(saying.message_id)
                return saying, "new"
            homes.append(home)
        for saying in (*self.talk.then, *self.extra):
            home, held = homes[saying.subject], now.holder.get(saying.message_id)
            if held is None or (held == home and not (saying.leaves and self._all_is_quiet(now))):
                continue
            if held == home:
                return saying, "new"
            if held in homes or not saying.leaves:
                self.put_right.add(saying.message_id)
                return saying, home
        return None

    def _all_is_quiet(self, now: Situation) -> bool:
        said = all(saying.message_id in now.holder for saying in self.talk.all)
        return said and all(state == "ended" for state in now.state.values())

    def _control(self, now: Situation) -> str | None:
        """Return the next control request: a task to pause or to resume, or None."""
        paused = [task for task, state in now.state.items() if state == "paused"]
        if paused:
            return f"{paused[0]}/resume"
        for saying in self.talk.first:
            task = now.holder.get(saying.message_id, "")
            if saying.pauses and task not in now.paused and now.state.get(task) == "working":
                return f"{task}/pause"
        return None

    def _next(self, now: Situation) -> Saying | None:
        """Return the next message to a task whose turn is over; tasks with a question come first."""
        left = [saying for saying in self.talk.then if saying not in self._sent]
        homes = {saying.subject: now.holder[saying.message_id] for saying in self.talk.first}
        ready = [saying for saying in left if now.turn_is_over(homes[saying.subject])]
        return min(ready, key=lambda saying: now.state[homes[saying.subject]] == "ended", default=None)

    async def _say_one_more(self, now: Situation) -> None:
        """Send another message to a task with a question, whose answer was moved to another task."""
        homes = {now.holder[saying.message_id]: saying.subject for saying in self.talk.first}
        asking = [task for task in homes if now.state.get(task) == "question" and self._may(f"{task}/answer")]
        if asking:
            saying = one_more(self._session, homes[asking[0]], len(self.extra))
            self._model.learn(saying)
            self.extra.append(saying)
            await self._say(saying, task_id=asking[0])

    async def _say(self, saying: Saying, **fields: str) -> None:
        self._sent.append(saying)
        await self.follower.send(saying.content, saying.message_id, user_id=user_of(self._session), **fields)

    def _may(self, request: str) -> bool:
        """Return whether a request may be made now; a repetition must wait."""
        now = time.monotonic()
        if now - self._asked.get(request, -_AGAIN_S) < _AGAIN_S:
            return False
        self._asked[request] = now
        return True

    async def _ask(self, request: str, body: dict[str, Any] | None = None) -> None:
        """Send a request to a gateway that answers. A refusal only means that the events are late."""
        if not self._may(f"{request} {body}"):
            return
        urls = self._gateways()
        url = urls[len(self._asked) % len(urls)]
        with suppress(HTTPError):
            async with AsyncClient(timeout=3, trust_env=False) as client:
                await client.post(f"{url}/v1/tasks/{request}", json=body)
