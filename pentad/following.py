"""A message and what came of it: the turn, followed to its end."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.events import SessionEvent, Snapshot
from pentad.contracts.ids import is_identifier
from pentad.contracts.turns import TurnEnd, TurnTracker
from pentad.errors import ClientError, NotFound, Refused
from pentad.feed import Feed, Received
from pentad.inspection import Inspection


class Turn:
    """One message and what came of it: iterate over it once. ``end`` is set when the iteration is over.

    ``say`` adds a message while it lasts: then it ends when the turns of all of them have. That of ``Agent.running``
    began with none: ``message_id`` is empty.
    """

    def __init__(self, feed: Feed, trackers: Sequence[TurnTracker], inspection: Inspection) -> None:
        self.session_id = feed.session_id
        self.message_id = trackers[0].message_id
        self._feed = feed
        self._trackers = {tracker.message_id or f"task {tracker.task_id}": tracker for tracker in trackers}
        self._inspection = inspection

    @property
    def task_id(self) -> str | None:
        """The task that the newest message went to; None until one is routed."""
        found = (tracker.task_id for tracker in reversed(self._trackers.values()))
        return next((task_id for task_id in found if task_id is not None), None)

    @property
    def running(self) -> list[str]:
        """The tasks that still work on it."""
        return [*dict.fromkeys(t.task_id for t in self._trackers.values() if t.end is None and t.task_id is not None)]

    @property
    def end(self) -> TurnEnd | None:
        """How the turn of the newest message ended; None while that of any lasts."""
        *_, newest = (tracker.end for tracker in self._trackers.values())
        return None if any(tracker.end is None for tracker in self._trackers.values()) else newest

    @property
    def placed(self) -> bool:
        """Whether every message of it has found its task, or has ended without one."""
        return all(tracker.task_id is not None or tracker.end is not None for tracker in self._trackers.values())

    @property
    def cursor(self) -> str | None:
        """Where the session's events have been read to."""
        return self._feed.cursor

    async def say(self, text: str, *, task_id: str | None = None) -> str:
        """Say something more while the turn lasts: the same events follow, with what comes of this. Returns its id.

        ``task_id`` sends it straight to a task. Raises ``Refused`` for what cannot be a message, and when the turn is
        over.
        """
        message = message_of(text, None, task_id=task_id)
        if self.end is not None:
            raise Refused("this turn is over: begin another")
        name: str = message["message_id"]
        self._trackers[name] = TurnTracker(name)
        await self._feed.say(message)
        return name

    async def expecting(self, message_id: str, task_id: str, moving: Awaitable[None]) -> None:
        """Wait for the request that moves a message away from a task; what comes of it there follows in this turn too.

        Raises what the request raises.
        """
        before = self._trackers.pop(message_id, None)
        follows = before is not None and before.end is None
        self._trackers[message_id] = before if before and follows else TurnTracker(message_id, leaves=task_id)
        try:
            await moving
        except ClientError:
            if not follows:
                del self._trackers[message_id]
                self._trackers |= {} if before is None else {message_id: before}
            raise

    async def __aiter__(self) -> AsyncGenerator[Received, None]:
        async with aclosing(self._feed.received()) as feed:
            async for received in feed:
                if not any(t.end is None and t.concerns(received.event) for t in self._trackers.values()):
                    continue
                await self._advance(received.event)
                yield received
                if self.end is not None:
                    return

    async def _advance(self, event: SessionEvent) -> None:
        for name, tracker in [*self._trackers.items()]:
            now = tracker.after(event)
            if isinstance(event, Snapshot) and now.end is None:
                now = await self._looked_up(now, event)
            self._trackers[name] = now
            if now.task_id is not None or now.end is not None:
                self._feed.delivered(name)

    async def _looked_up(self, tracker: TurnTracker, snapshot: Snapshot) -> TurnTracker:
        """Events are gone, perhaps the end of the turn too: a task that the snapshot does not show is asked for."""
        task_id = tracker.task_id
        if task_id is None or any(task.get("task_id") == task_id for task in snapshot.tasks):
            return tracker
        try:
            task = await self._inspection.task(task_id)
        except NotFound:
            return tracker.ended("failed", "the task is gone")
        return tracker.settled(task.model_dump())


def message_of(text: str, message_id: str | None, **optional: str | None) -> dict[str, Any]:
    """The frame of a message, with an id of its own when it has none. Raises ``Refused``."""
    if not 1 <= len(text) <= MAX_CONTENT:
        raise Refused(f"a message has 1 to {MAX_CONTENT} characters, this one has {len(text)}")
    message = {"type": "message", "content": text, "message_id": message_id or f"m-{uuid4().hex}"}
    message |= {name: value for name, value in optional.items() if value is not None}
    for name in message.keys() - {"type", "content"}:
        identifier(name, message[name])
    return message


def identifier(name: str, value: str) -> str:
    """The value, if it is an identifier. Raises ``Refused``."""
    if not is_identifier(value):
        raise Refused(f"{name} {value!r} is not one: 1 to 128 of A-Z a-z 0-9 . _ ~ @ -, the first a letter or digit")
    return value
