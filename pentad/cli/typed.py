"""``pentad chat`` at the keyboard: the prompt stays while the agent works, and what is typed then joins its work."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from shlex import quote

from pentad.cli.asked import waiting_lines
from pentad.cli.chat_commands import (
    HELP,
    Line,
    cancel_task,
    decide,
    move_last,
    task_lines,
    task_meant,
    turns_of_before,
    understood,
)
from pentad.cli.gateway import speaker_for, streams
from pentad.cli.history import default_path
from pentad.cli.paned_screen import MIN_COLUMNS, PanedScreen
from pentad.cli.render import style_for, width
from pentad.cli.screen import Screen
from pentad.cli.session_view import SessionView
from pentad.cli.session_watch import SessionWatch, waiting_in
from pentad.cli.side_pane import SidePane
from pentad.cli.task_labels import TaskLabels
from pentad.client.agent import Agent
from pentad.client.turns import Turn
from pentad.contracts.events import MessageRouted
from pentad.errors import ClientError, Conflict, NotAuthorized
from pentad.shared.settings import Settings

_ASK_S = 0.05
_TAKEN_S = 3.0
"""Seconds that leaving waits until the last message has found its task."""


class TypedChat:
    """One conversation in a terminal."""

    def __init__(self, args: argparse.Namespace, settings: Settings) -> None:
        out, _ = streams()
        self._style = style_for(out, settings)
        prompt, labels = f"{self._style.bold('you>')} ", TaskLabels(self._style)
        self._pane = None if args.plain or width() < MIN_COLUMNS else SidePane(self._style, labels)
        self._screen: Screen | PanedScreen = (
            Screen(out, prompt, default_path(), self._interrupted)
            if self._pane is None
            else PanedScreen(out, prompt, default_path(), self._interrupted, self._pane)
        )
        self._agent: Agent = speaker_for(args, settings, self._screen.show).session(args.session)
        self._returned = args.session is not None
        self._view = SessionView(self._screen, self._style, self._screen, labels, live=True, markdown=True)
        self._watch: SessionWatch | None = None
        self._running: Running | None = None
        self._failure: NotAuthorized | None = None

    async def talk(self) -> int:
        """The whole conversation; the exit code. Raises ``ClientError`` when nobody answers or the key is wrong."""
        async with self._agent:
            await self._agent.inspection.tasks(limit=1)
            session = self._agent.session_id or ""
            self._screen.note(
                self._style.dim(
                    f"session {session}: come back with `pentad chat --session {quote(session)}`\n"
                    "what you say while the agent works goes to its task; /help says more, Ctrl-C stops, Ctrl-D leaves"
                )
            )
            async with self._screen, self._watched(session):
                await self._rejoin()
                await self._listen()
                await self._leave()
        if self._failure is not None:
            raise self._failure
        return 0

    @asynccontextmanager
    async def _watched(self, session: str) -> AsyncIterator[None]:
        """Keep the pane current, if there is one."""
        if self._pane is None or not isinstance(self._screen, PanedScreen):
            yield
            return
        self._watch = SessionWatch(self._agent.inspection, session, self._pane, self._screen.redraw)
        watching = asyncio.create_task(self._watch.run())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _rejoin(self) -> None:
        """Follow what the session that we come back to is working on."""
        if not self._returned:
            return
        assert self._agent.session_id is not None
        for line in await turns_of_before(self._agent.inspection, self._agent.session_id, self._style):
            self._screen.note(line)
        await self._listed_tasks()
        for waiting in await waiting_in(self._agent.inspection, self._agent.session_id):
            self._screen.note(self._style.yellow("\n".join(waiting_lines(waiting, width()))))
        turn = await self._agent.running()
        if turn is not None:
            self._view.resume(turn.running)
            self._begin(turn)

    async def _listen(self) -> None:
        async for typed in self._screen.lines():
            line = understood(typed)
            if line.kind == "quit":
                return
            if line.kind == "tasks":
                await self._list_tasks()
            elif line.kind == "help":
                for text in HELP:
                    self._screen.note(self._style.dim(text))
            elif line.kind == "cancel":
                await self._cancel_task(line)
            elif line.kind in ("approve", "refuse"):
                await self._decide(line)
            elif line.kind == "move":
                await self._move(line)
            elif line.kind == "wrong":
                self._screen.note(self._style.red(line.text))
            elif line.text:
                await self._say(line)

    async def _list_tasks(self) -> None:
        try:
            lines = await self._listed_tasks()
        except ClientError as error:
            lines = [self._style.red(str(error))]
        for line in lines:
            self._screen.note(line)

    async def _listed_tasks(self) -> list[str]:
        assert self._agent.session_id is not None
        return await task_lines(self._agent.inspection, self._agent.session_id, self._view.labels, self._style)

    async def _say(self, line: Line) -> None:
        """To the turn that runs, or else as the beginning of one."""
        try:
            task_id = task_meant(line, self._view.labels)
            if self._running is not None and self._running.turn.end is None:
                self._running.joined.add(await self._running.turn.say(line.text, task_id=task_id))
                return
            if self._running is not None:
                await self._running.settled()
            turn = self._agent.turn(line.text, task_id=task_id)
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))
        else:
            self._screen.show("sending")
            self._begin(turn)

    async def _cancel_task(self, line: Line) -> None:
        try:
            await cancel_task(self._agent, line, self._view.labels)
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))

    async def _decide(self, line: Line) -> None:
        """Decide about a call, and follow its task, unless a turn runs: that one goes on being shown."""
        runs = self._running is not None and self._running.turn.end is None
        if self._running is not None and not runs:
            await self._running.settled()
        try:
            turn = await decide(self._agent, line)
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))
            return
        if not runs:
            self._begin(turn)

    async def _move(self, line: Line) -> None:
        """Move the last message beside the turn that runs; without one, follow the turn that the move begins."""
        running = self._running if self._running is not None and self._running.turn.end is None else None
        if running is None and self._running is not None:
            await self._running.settled()
        try:
            turn = await move_last(self._agent, line, self._view.labels, None if running is None else running.turn)
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))
            if running is not None and running.turn.end is not None:
                await running.given_up()  # all else has ended meanwhile: no event would say so
            return
        if running is None:
            self._begin(turn)

    def _begin(self, turn: Turn) -> None:
        self._running = Running(turn)
        self._running.following = asyncio.create_task(self._follow(self._running))

    async def _follow(self, running: "Running") -> None:
        try:
            async for received in running.turn:
                event = received.event
                same = isinstance(event, MessageRouted) and event.task_id == self._view.spoken_to
                self._view.show(event)
                if self._watch is not None:
                    self._watch.hear(event)
                if same and isinstance(event, MessageRouted) and event.message_id in running.joined:
                    self._told_to(running, event)
        except NotAuthorized as error:
            self._failure = error
            self._screen.leave()
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))
        finally:
            self._running = None
            self._screen.show("")
        end = running.turn.end
        if running.stops_all and end is not None and end.outcome == "completed":
            self._screen.leave_when_empty()  # the Ctrl-C came after the answer: it meant the chat

    def _told_to(self, running: "Running", event: MessageRouted) -> None:
        if event.decision == "append" and running.turn.end is None:
            self._screen.note(self._style.dim("→ added to what runs: the next step sees it"))

    def _interrupted(self) -> None:
        """Cancel, at Ctrl-C, the task that was shown last; the second leaves, and at an empty idle prompt the first.

        When the cancelled task has ended and others still run, the next Ctrl-C cancels the next one.
        """
        running = self._running
        if running is None or running.turn.end is not None:
            if not self._screen.forget():
                self._screen.leave()
        elif running.stops:
            self._screen.leave()
        else:
            tasks = running.turn.running
            meant = self._shown_last(running.turn)
            which = f" {self._view.labels.of(meant).text}" if meant is not None and len(tasks) > 1 else ""
            self._screen.note(self._style.dim(f"cancelling{which}; Ctrl-C once more leaves"))
            running.stops_all = len(tasks) <= 1
            running.stopped = meant
            running.stopping = asyncio.create_task(self._cancel(running))

    def _shown_last(self, turn: Turn) -> str | None:
        """The running task of which something was shown last; None while none runs."""
        shown, tasks = self._view.shown_last, turn.running
        return shown if shown in tasks else tasks[-1] if tasks else None

    async def _cancel(self, running: "Running") -> None:
        while running.stopped is None and running.turn.end is None:
            await asyncio.sleep(_ASK_S)  # not routed yet: its task has no name
            running.stopped = self._shown_last(running.turn)
        if running.stopped is None:
            return
        try:
            with suppress(Conflict):  # it has ended meanwhile
                await self._agent.management.cancel_task(running.stopped)
        except ClientError as error:
            self._screen.note(self._style.red(str(error)))

    async def _leave(self) -> None:
        running = self._running
        if running is None:
            return
        asked = running.stopping is not None
        taken = asked or await running.taken()
        await running.given_up()
        self._view.halt()
        if not taken:
            self._view.line(self._style.red("no task has taken your last message yet: it may be lost"))
        elif not asked:
            self._view.line(self._style.dim("the task goes on without you"))


class Running:
    """The turn that runs, and what goes on about it."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.joined: set[str] = set()
        """Messages that were said while it ran."""
        self.following: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None
        """The cancelling that a Ctrl-C began."""
        self.stopped: str | None = None
        """The task that is cancelled; None while none is known."""
        self.stops_all = False
        """No other task ran when it was cancelled."""

    @property
    def stops(self) -> bool:
        """Whether a task is being cancelled that has not ended yet."""
        return self.stopping is not None and (self.stopped is None or self.stopped in self.turn.running)

    async def settled(self) -> None:
        """Wait until its last event is shown."""
        if self.following is not None:
            await asyncio.wait([self.following])

    async def taken(self) -> bool:
        """Wait a while until every message has found its task; whether it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TAKEN_S):
                while not self.turn.placed and not (self.following is None or self.following.done()):
                    await asyncio.sleep(_ASK_S)
        return self.turn.placed

    async def given_up(self) -> None:
        """Follow it no more."""
        tasks = [task for task in (self.following, self.stopping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
