"""A conversation with a running Pentad: say something, follow its events, look at tasks, stop them."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Self
from uuid import uuid4

from pentad.contracts.events import SessionEvent
from pentad.contracts.records import ShownStatus, Task
from pentad.contracts.runs import InstructionRun
from pentad.contracts.turns import TurnEnd, TurnTracker
from pentad.errors import Refused, RunFailed, TurnFailed
from pentad.feed import PATIENCE_S, Feed, Notice, position
from pentad.following import Turn, identifier, message_of
from pentad.inspection import PAGE_LIMIT, Inspection, Management
from pentad.observing import INTERVAL_S, Watching, of_session, of_tenant
from pentad.rest import Rest
from pentad.runs import run_to_its_end
from pentad.text import said_in
from pentad.transport import Address

DEFAULT_URL = "http://127.0.0.1:8080"


class Agent:
    """A gateway, seen as someone to talk to. Made by ``connect``.

    What is said without a session is a conversation of its own each time; ``session`` gives an agent of one session.
    """

    def __init__(
        self,
        address: Address,
        *,
        patience_s: float | None = None,
        notice: Notice | None = None,
        admin_key: str | None = None,
    ) -> None:
        self.session_id: str | None = None
        """The conversation that is gone on with where no other is named; None: each time a new one."""
        self._address = address
        self._notice = notice
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._rest = Rest(address)
        self._operator = self._rest if admin_key is None else Rest(replace(address, api_key=admin_key))
        self.inspection = Inspection(self._rest, self._operator)
        self.management = Management(self._rest, self._operator)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def shutdown(self) -> None:
        """Close the connections, as leaving ``async with`` does. Safe to call twice; what runs goes on."""
        await self._rest.aclose()
        await self._operator.aclose()

    def session(self, session_id: str | None = None) -> "Agent":
        """The same gateway as one conversation, on the same connections: the one of this name, or a new one.

        Raises ``Refused`` for what is no name.
        """
        bound = copy(self)
        bound.session_id = identifier("session_id", session_id or _new_session())
        return bound

    async def ask(
        self,
        text: str,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        message_id: str | None = None,
        user_id: str | None = None,
        instruction: str | None = None,
    ) -> str:
        """Say something and wait for the answer: the text of the turn's last message. Arguments as of ``send``.

        Raises ``TurnFailed`` when the turn ends without an answer, and what else ``send`` raises.
        """
        about = {"task_id": task_id, "message_id": message_id, "user_id": user_id, "instruction": instruction}
        turn = self.turn(text, session_id=session_id, **about)
        answer = ""
        async with aclosing(turn.__aiter__()) as received:
            async for one in received:
                answer = said_in(one.event, turn.task_id) or answer
        end = turn.end or TurnEnd("error", "the turn did not end")
        if not end.ok:
            raise TurnFailed(end)
        return answer

    async def send(
        self,
        text: str,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        message_id: str | None = None,
        user_id: str | None = None,
        instruction: str | None = None,
    ) -> AsyncGenerator[SessionEvent, None]:
        """Say something and follow the events of its turn to their end, across lost connections, each event once.

        ``task_id`` sends it straight to a task; ``instruction`` names what is run. ``message_id`` makes it idempotent
        in its session: one that was sent before gives the first one's turn again, as far as the session's events are
        kept. Raises ``ClientError``; what goes wrong inside the turn (``error``, a rejected message, a failed task) is
        an event.
        """
        about = {"task_id": task_id, "message_id": message_id, "user_id": user_id, "instruction": instruction}
        turn = self.turn(text, session_id=session_id, **about)
        async with aclosing(turn.__aiter__()) as received:
            async for one in received:
                yield one.event

    def turn(
        self,
        text: str,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        message_id: str | None = None,
        user_id: str | None = None,
        instruction: str | None = None,
    ) -> Turn:
        """Like ``send``, as an object that also knows its task, how it ended, and each event's cursor."""
        session = identifier("session_id", session_id or self.session_id or _new_session())
        message = message_of(text, message_id, task_id=task_id, user_id=user_id, instruction=instruction)
        after = None if message_id is None else "0"  # one that was said before has its turn behind us
        return Turn(self._feed(session, [message], after), [TurnTracker(message["message_id"])], self.inspection)

    async def run(self, instruction: str, text: str, **about: Any) -> Any:
        """Run an instruction: the data of a ``json`` one, else the text of its answer. ``about``: as for ``execute``.

        Raises ``RunFailed`` when it did not complete, and ``ClientError``. To see its events as they come, ``send``
        with ``instruction``.
        """
        found = await self.execute(instruction, text, **about)
        if found.error is not None or found.status != "completed":
            raise RunFailed(found)
        return found.value

    async def execute(
        self,
        instruction: str,
        text: str,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        deadline: str | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> InstructionRun:
        """Run an instruction to its end and tell all of it, a failed one too: the answer, the tool calls, the costs.

        Each run is in a session of its own unless one is named. Lost connections are made again, and it still runs
        once. ``deadline`` is a time (RFC 3339), ``budget`` has ``tokens usd steps``. Raises ``NotFound`` for an
        instruction that is not there, and ``ClientError``.
        """
        named = {"session_id": session_id or _new_session(), "user_id": user_id}
        body = message_of(text, message_id, **named)
        body = {"input": body.pop("content"), **{name: value for name, value in body.items() if name != "type"}}
        more = {"metadata": metadata, "deadline": deadline, "budget": budget}
        body |= {name: value for name, value in more.items() if value is not None}
        return await run_to_its_end(self._rest, instruction, body, patience_s=self._patience_s)

    async def move(self, message_id: str, to: str, task_id: str, *, beside: Turn | None = None) -> Turn:
        """Move a message of this session as ``management.move`` does; a turn of what comes of it in the other task.

        ``beside``: a turn of the session that is followed and has not ended, which then has that as well, and is
        returned. Raises ``NotFound``, ``Conflict``, and ``Refused`` when this agent has no session.
        """
        session, moving = self._named(None), self.management.move
        if beside is not None:
            await beside.expecting(message_id, task_id, moving(message_id, to, task_id))
            return beside
        here = await position(self._address, session)  # before it is asked for: it is told once
        await moving(message_id, to, task_id)
        return Turn(self._feed(session, [], here), [TurnTracker(message_id, leaves=task_id)], self.inspection)

    async def running(self, session_id: str | None = None) -> Turn | None:
        """What a session is working on, as a turn from now on; None when it is idle. ``running`` names the tasks."""
        session = self._named(session_id)
        here = await position(self._address, session)  # before the tasks: what ends from now on is seen to end
        tasks = await self.inspection.tasks("active", session)
        trackers = [TurnTracker("", task_id=task.task_id) for task in reversed(tasks)]
        return Turn(self._feed(session, [], here), trackers, self.inspection) if trackers else None

    async def observe(
        self,
        session_id: str | None = None,
        *,
        status: ShownStatus | None = None,
        limit: int = PAGE_LIMIT,
        interval_s: float = INTERVAL_S,
    ) -> AsyncGenerator[list[Task], None]:
        """The newest tasks, at most ``limit``, the newest first: now, and again at each change, until it is closed.

        Of one session: told by its events. Of all of them: asked for every ``interval_s`` seconds. Survives lost
        connections as ``send`` does. Raises ``ClientError``.
        """
        session, watching = session_id or self.session_id, Watching(status, limit, self._patience_s, self._notice)
        if session is None:
            lists = of_tenant(self.inspection, watching, interval_s)
        else:
            lists = of_session(self.inspection, watching, self._address, identifier("session_id", session))
        async with aclosing(lists) as found:
            async for tasks in found:
                yield tasks

    def _named(self, session_id: str | None) -> str:
        named = session_id or self.session_id
        if named is None:
            raise Refused('name the session: agent.session("...")')
        return identifier("session_id", named)

    def _feed(self, session: str, messages: list[dict[str, Any]], after: str | None) -> Feed:
        return Feed(self._address, session, messages, after=after, notice=self._notice, patience_s=self._patience_s)


def connect(
    url: str = DEFAULT_URL,
    api_key: str | None = None,
    *,
    patience_s: float | None = None,
    notice: Notice | None = None,
    admin_key: str | None = None,
) -> Agent:
    """An ``Agent`` for ``async with``. Connects when it is first used.

    ``admin_key``: for what ``management`` does to models, instructions and dead letters; the other key serves where
    there is none.

    ``patience_s``: how long a lost connection is tried again, 60 seconds when not given. ``notice`` is called with one
    line whenever it has to wait. Raises ``ClientError`` when ``url`` is not an http(s) address.
    """
    return Agent(Address.parse(url, api_key), patience_s=patience_s, notice=notice, admin_key=admin_key)


def _new_session() -> str:
    return f"s-{uuid4().hex[:20]}"
