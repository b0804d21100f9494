"""A message and what came of it: its turn, or the run of an instruction, followed to the end."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypedDict
from uuid import uuid4

from pentad.client.client_tools import BroughtToolRuns
from pentad.client.feed import PATIENCE_S, Feed, Received, backoff
from pentad.client.gateway import Rest
from pentad.client.inspection import Inspection, path_of
from pentad.client.text import TurnText
from pentad.contracts.commands import MAX_CONTENT, NEW_TASK
from pentad.contracts.events import SessionEvent, Snapshot, TaskEnd
from pentad.contracts.graph_nodes import MAX_FIRST_STATE
from pentad.contracts.ids import may_be, rule_of
from pentad.contracts.runs import InstructionRun
from pentad.contracts.turns import ASKED, TurnEnd, TurnTracker
from pentad.errors import Busy, ClientError, GatewayUnreachable, NotFound, Refused


class About(TypedDict, total=False):
    """Options of a message beside its text."""

    session_id: str | None
    task_id: str | None
    message_id: str | None
    user_id: str | None
    instruction: str | None
    metadata: Mapping[str, str] | None
    deadline: str | None
    """RFC 3339."""
    budget: Mapping[str, Any] | None
    """``tokens usd steps``: what the turn may use."""
    output_schema: Mapping[str, Any] | None
    """JSON schema of the answer: one JSON value that fits, from a task of its own."""
    files: Sequence[str] | None
    """Paths of files of the session that the message is about."""
    state: Mapping[str, Any] | None
    """Initial state of the graph that ``instruction`` names."""
    tools: Sequence[Any] | None
    """Tools of the program's own, which the turn runs while it is followed: functions, or dictionaries ``{"name",
    "description", "parameters", "run"}``."""
    callback_url: str | None
    """Address to which the gateway sends the turn's events."""
    callback_secret: str | None
    """Secret with which they are signed."""
    cancels: bool
    """To leave the turn before its end cancels what it runs."""


_NAMES = ("message_id", "session_id", "task_id", "user_id", "instruction")
_BOUNDS = (
    *("metadata", "deadline", "budget", "output_schema", "state", "files", "tools"),
    *("callback_url", "callback_secret"),
)
_CANCEL_S = 5.0
"""How long a turn that is left may take to find its task and cancel it."""
Cancel = Callable[[str], Awaitable[None]]


class Turn:
    """One message and what came of it: iterate once, over its events or its ``text``. ``end`` is set when that is over.

    ``say`` adds a message while it lasts: then it ends when the turns of all of them have. That of ``Agent.running``
    began with none: ``message_id`` is empty. ``user_id``: who says more.
    ``cancel``: what to do with its tasks when it is left before its end. ``tools``: runs those of its first message.
    """

    def __init__(
        self,
        feed: Feed,
        trackers: Sequence[TurnTracker],
        inspection: Inspection,
        cancel: Cancel | None = None,
        user_id: str | None = None,
        tools: BroughtToolRuns | None = None,
    ) -> None:
        self.session_id = feed.session_id
        self.message_id = trackers[0].message_id
        self._feed = feed
        self._trackers = {tracker.message_id or f"task {tracker.task_id}": tracker for tracker in trackers}
        self._inspection = inspection
        self._cancel = cancel
        self._begun = False
        self._user = user_id
        self._tools = tools

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
        message = message_of(text, {"task_id": task_id, "user_id": self._user})
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
        """Raises ``Refused`` the second time: its events are gone by, and its message would be said again."""
        if self._begun:
            raise Refused("this turn was iterated over before: begin another, or keep its events")
        self._begun = True
        async with aclosing(self._feed.received()) as feed:
            try:
                while self.end is None:
                    received = await self._next(feed)
                    if await self._takes(received):
                        yield received
                if self._tools is not None and self.end.outcome == "waiting":
                    await self._tools.finish()  # it waits for somebody else as well
            finally:
                if self._tools is not None:
                    await self._tools.stop()
                if self._cancel is not None and self.end is None:
                    await self._cancel_all(self._cancel, feed)

    async def _next(self, feed: AsyncGenerator[Received, None]) -> Received:
        """Return the session's next event, which its own tools have seen. Raises what a feed and their runs raise."""
        if self._tools is None:
            return await anext(feed)
        received = await self._tools.beside(anext(feed))
        self._tools.follow(received.event)
        return received

    async def text(self) -> AsyncGenerator[str, None]:
        """Iterate over the turn as its text: yield all that the agent has said so far, each time that it changes.

        What a broken attempt of the model said is gone from the next text on. Two steps, and two tasks of the turn,
        are separated by an empty line. Raises ``Refused`` where the turn was iterated over before.
        """
        said = TurnText()
        async with aclosing(self.__aiter__()) as events:
            async for received in events:
                if said.add(received.event, self.task_id):
                    yield str(said)

    async def _takes(self, received: Received) -> bool:
        """Whether the event is of this turn, which then stands where the event leads."""
        if not any(t.end is None and t.concerns(received.event) for t in self._trackers.values()):
            return False
        await self._advance(received.event)
        return True

    async def _cancel_all(self, cancel: Cancel, feed: AsyncGenerator[Received, None]) -> None:
        """Cancel what runs, once it has a name. Nobody waits for the outcome: what goes wrong here is not told."""
        with suppress(ClientError, TimeoutError, StopAsyncIteration, RuntimeError):
            async with asyncio.timeout(_CANCEL_S):
                while not self.placed:
                    await self._takes(await anext(feed))
                for task_id in self.running:
                    await cancel(task_id)

    async def _advance(self, event: SessionEvent) -> None:
        for name, tracker in [*self._trackers.items()]:
            now = tracker.after(event)
            if isinstance(event, Snapshot) and now.end is None:
                now = await self._looked_up(now, event)
            elif isinstance(event, TaskEnd) and now.end is None and now.task_id != tracker.task_id is not None:
                now = await self._at_parent(now)
            self._trackers[name] = now
            if now.task_id is not None or now.end is not None:
                self._feed.delivered(name)

    async def _at_parent(self, tracker: TurnTracker) -> TurnTracker:
        """A branch that was spoken to has ended, and the task above it goes on: another branch may ask by now."""
        waiting = await self._inspection.tasks("waiting", self.session_id)
        asks = any(task.parent_task_id == tracker.task_id and ASKED in task.waiting_for for task in waiting)
        return tracker.ended("waiting", ASKED) if asks else tracker

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


def message_of(text: str, about: About) -> dict[str, Any]:
    """The frame of a message, with an id of its own when it has none. Raises ``Refused``."""
    if not 1 <= len(text) <= MAX_CONTENT:
        raise Refused(f"a message has 1 to {MAX_CONTENT} characters, this one has {len(text)}")
    message: dict[str, Any] = {
        "type": "message",
        "content": text,
        "message_id": about.get("message_id") or f"m-{uuid4().hex}",
    }
    message |= {name: about[name] for name in (*_NAMES, *_BOUNDS) if about.get(name) is not None}  # type: ignore[literal-required]
    for name in _NAMES:
        if name in message:
            identifier(name, message[name])
    if "state" in message:
        message["state"] = _state(message["state"])
    if "output_schema" in message and message.setdefault("task_id", NEW_TASK) != NEW_TASK:
        raise Refused("an answer of a form of its own needs a task of its own: leave task_id out")
    return message


def _state(state: Any) -> dict[str, Any]:
    """Return the initial state of a graph. Raises ``Refused`` for what is none."""
    if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
        raise Refused("state: an object is expected, the keys of which are texts")
    try:
        text = json.dumps(dict(state), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"state: it cannot be written as JSON: {str(error)[:200]}") from None
    if size > MAX_FIRST_STATE:
        raise Refused(f"state: it has {size:,} bytes as JSON, and {MAX_FIRST_STATE:,} at most: send a reference")
    return dict(state)


def new_session() -> str:
    """The name of a conversation that nobody has begun."""
    return f"s-{uuid4().hex[:20]}"


def identifier(name: str, value: str) -> str:
    """The value, if it may be an id of this name. Raises ``Refused``."""
    if not may_be(name, value):
        raise Refused(f"{name} {value[:200]!r} is not one: {rule_of(name)}")
    return value


_WAIT_S = 20.0
"""Seconds that one request waits for the end: less than requests may last."""


async def run_to_its_end(
    rest: Rest, instruction: str, body: Mapping[str, Any], patience_s: float = PATIENCE_S
) -> InstructionRun:
    """Ask until the run has ended. ``body`` has its ``session_id`` and ``message_id``: asked again, it still runs once.

    Raises ``NotFound`` and ``ClientError``; ``GatewayUnreachable`` and ``Busy`` after ``patience_s`` without an answer.
    """
    path = path_of("instructions", instruction, "run")
    await rest.request("GET", "/")  # where nobody answers at all, that is told at once
    heard, failures = time.monotonic(), 0
    while True:
        try:
            found = await rest.call("POST", path, body=body, wait=_WAIT_S)
        except (Busy, GatewayUnreachable) as error:
            if time.monotonic() - heard > patience_s:
                raise
            told = error.retry_after if isinstance(error, Busy) else None
            await asyncio.sleep(min(backoff(failures) if told is None else told, patience_s))
            failures += 1
            continue
        if "status" in found:
            return InstructionRun.model_validate(found)
        heard, failures = time.monotonic(), 0
