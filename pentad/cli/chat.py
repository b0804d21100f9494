"""``pentad chat``: a conversation in the terminal, or one message per line of a pipe."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote

from pentad.cli.asked import waiting_lines
from pentad.cli.chat_commands import HELP, Line, cancel_task, decide, move_last, task_lines, task_meant, understood
from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import speaker_for, streams
from pentad.cli.lines import PlainLines
from pentad.cli.render import Style, style_for, width
from pentad.cli.session_view import SessionView
from pentad.cli.session_watch import waiting_in
from pentad.cli.spinner import Spinner
from pentad.client.agent import Agent
from pentad.client.turns import Turn
from pentad.errors import ClientError, Conflict, NotFound, Refused
from pentad.shared.settings import Settings


class Leave(Exception):  # noqa: N818 - not an error
    """The person wants to go."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Talk until Ctrl-D or ``/quit``. In a pipe: 1 when a turn failed. Raises ``ClientError`` when nobody answers."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        from pentad.cli.typed import TypedChat  # a third of a second for what a pipe needs not

        return run_async(TypedChat(args, settings).talk())
    with asyncio.Runner() as runner:
        return PipedChat(args, settings, runner).talk()


class PipedChat:
    """Each line of a pipe is said when the turn before has ended. Reading blocks: between turns nothing else runs."""

    def __init__(self, args: argparse.Namespace, settings: Settings, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._out, self._err = streams()
        self._style = style_for(self._out, settings)
        self._progress = Spinner(self._err, live=self._err.isatty() and self._out.isatty())
        self._agent: Agent = speaker_for(args, settings, self._progress.show).session(args.session)
        self._returned = args.session is not None
        self._view = SessionView(PlainLines(self._out), self._style, self._progress, live=self._out.isatty())

    def talk(self) -> int:
        """The whole conversation; the exit code."""
        try:
            self._runner.run(self._agent.inspection.tasks(limit=1))
            session = self._agent.session_id or ""
            self._err.write(f"session {session}: come back with `pentad chat --session {quote(session)}`\n")
            self._err.flush()
            return self._turns()
        finally:
            self._runner.run(self._agent.__aexit__())

    def _turns(self) -> int:
        failed = False
        try:
            if self._returned:
                self._runner.run(self._tell_what_waits())
            if self._returned and (before := self._runner.run(self._agent.running())) is not None:
                self._view.resume(before.running)
                failed = not self._runner.run(self._followed(before))
            for line in map(understood, filter(str.strip, sys.stdin)):
                if line.kind == "quit":
                    break
                failed = not self._runner.run(self._done(line)) or failed
        except Leave:
            return 0
        return 1 if failed else 0

    async def _done(self, line: Line) -> bool:
        """Do what a line says; whether it went well. Raises ``Leave``."""
        try:
            if line.kind == "tasks":
                await self._list_tasks()
            elif line.kind == "help":
                for text in HELP:
                    self._view.line(text)
            elif line.kind == "wrong":
                raise Refused(line.text)
            elif line.kind == "cancel":
                await cancel_task(self._agent, line, self._view.labels)
            elif line.kind in ("approve", "refuse"):
                return await self._followed(await decide(self._agent, line))
            elif line.kind == "move":
                return await self._followed(await move_last(self._agent, line, self._view.labels))
            else:
                task_id = task_meant(line, self._view.labels)
                self._progress.show("sending")
                return await self._followed(self._agent.turn(line.text, task_id=task_id))
        except (Refused, Conflict, NotFound) as error:
            self._view.line(self._style.red(str(error)))
            return False
        return True

    async def _tell_what_waits(self) -> None:
        assert self._agent.session_id is not None
        for waiting in await waiting_in(self._agent.inspection, self._agent.session_id):
            self._view.line(self._style.yellow("\n".join(waiting_lines(waiting, width()))))

    async def _list_tasks(self) -> None:
        assert self._agent.session_id is not None
        for line in await task_lines(self._agent.inspection, self._agent.session_id, self._view.labels, self._style):
            self._view.line(line)

    async def _followed(self, turn: Turn) -> bool:
        """Show one turn; whether it ended well. Raises ``Leave`` at the second Ctrl-C."""
        shown = asyncio.create_task(self._show(turn))
        stop = CtrlC(self._agent, turn, shown, self._view, self._style)
        async with self._progress:
            with on_interrupt(stop.pressed):
                await asyncio.wait([shown])
            await stop.settled()
        if shown.cancelled():
            raise Leave
        shown.result()
        return turn.end is not None and turn.end.ok

    async def _show(self, turn: Turn) -> None:
        async for received in turn:
            self._view.show(received.event)


class CtrlC:
    """Ctrl-C: the first cancels the task as soon as it is known, the second leaves."""

    def __init__(self, agent: Agent, turn: Turn, shown: "asyncio.Task[None]", view: SessionView, style: Style) -> None:
        self._agent = agent
        self._turn = turn
        self._shown = shown
        self._view = view
        self._style = style
        self._asked: asyncio.Task[None] | None = None

    def pressed(self) -> None:
        """Called in the loop for each Ctrl-C."""
        if self._asked is not None:
            self._shown.cancel()
            return
        self._view.line(self._style.dim("cancelling; Ctrl-C once more leaves"))
        self._asked = asyncio.create_task(self._cancel())

    async def settled(self) -> None:
        """Wait for what a Ctrl-C began; a task that has ended meanwhile needs no cancelling."""
        if self._asked is None:
            return
        if self._shown.cancelled() or self._turn.task_id is None:
            self._asked.cancel()
        with suppress(asyncio.CancelledError):
            await self._asked

    async def _cancel(self) -> None:
        while self._turn.task_id is None:
            await asyncio.sleep(0.05)  # not routed yet: its task has no name
        for task_id in self._turn.running:
            try:
                with suppress(Conflict):  # it has ended meanwhile
                    await self._agent.management.cancel_task(task_id)
            except ClientError as error:
                self._view.line(self._style.red(str(error)))


@contextmanager
def on_interrupt(pressed: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls ``pressed`` in the running loop while inside."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, pressed)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
