"""``pentad chat``: a conversation in the terminal, or one message per line of a pipe."""

import argparse
import asyncio
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

from pentad.cli.gateway import agent_for, streams
from pentad.cli.history import default_path, input_history
from pentad.cli.progress import Progress
from pentad.cli.render import Style, style_for
from pentad.cli.view import TurnView
from pentad.client import Agent, Turn
from pentad.errors import ClientError, Conflict, NotAuthorized
from shared.settings import Settings

QUIT = frozenset({"/quit", "/exit"})


class Leave(Exception):  # noqa: N818 - not an error
    """The person wants to go."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Talk until Ctrl-D or ``/quit``. In a pipe: 1 when a turn failed. Raises ``ClientError`` when nobody answers."""
    with asyncio.Runner() as runner:
        return Chat(args, settings, runner).talk()


class Chat:
    """The loop of reading a line and showing its turn. The prompt blocks: between turns nothing else runs."""

    def __init__(self, args: argparse.Namespace, settings: Settings, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._out, self._err = streams()
        self._typed = sys.stdin.isatty() and self._out.isatty()
        self._style = style_for(self._out, settings)
        self._progress = Progress(self._err, live=self._err.isatty() and self._out.isatty())
        self._agent: Agent = agent_for(args, settings, self._progress.show)
        self._agent.session_id = args.session or self._agent.session_id
        self._view = TurnView(self._out, self._style, self._progress, live=self._out.isatty())

    def talk(self) -> int:
        """The whole conversation; the exit code."""
        try:
            self._runner.run(self._agent.inspection.tasks(limit=1))
            self._say_session()
            with input_history(default_path()) if self._typed else nullcontext():
                return self._turns()
        finally:
            self._runner.run(self._agent.__aexit__())

    def _turns(self) -> int:
        failed = False
        for text in self._lines():
            try:
                failed = not self._runner.run(self._turn(text)) or failed
            except Leave:
                return 0
            except ClientError as error:
                if not self._typed or isinstance(error, NotAuthorized):
                    raise
                self._view.line(self._style.red(str(error)))
        return 1 if failed and not self._typed else 0

    def _say_session(self) -> None:
        session = self._agent.session_id
        stream: TextIO = self._out if self._typed else self._err
        ways = "; Ctrl-C stops a task, Ctrl-D leaves" if self._typed else ""
        text = f"session {session}: come back with `pentad chat --session {session}`{ways}"
        stream.write((self._style.dim(text) if self._typed else text) + "\n")
        stream.flush()

    def _lines(self) -> Iterator[str]:
        """What the person says, until they leave."""
        for line in self._typed_lines() if self._typed else sys.stdin:
            text = line.strip()
            if text in QUIT:
                return
            if text:
                yield text

    def _typed_lines(self) -> Iterator[str]:
        interrupted = False
        while True:
            try:
                line = input(self._prompt())
            except EOFError:
                self._out.write("\n")
                return
            except KeyboardInterrupt:
                self._out.write("\n")
                if interrupted:
                    return
                interrupted = True
                self._view.line(self._style.dim("Ctrl-C once more, Ctrl-D or /quit leaves"))
                continue
            interrupted = False
            yield line

    def _prompt(self) -> str:
        # readline counts columns: what takes none stands between \x01 and \x02.
        return re.sub(r"(\x1b\[\d+m)", "\x01\\1\x02", self._style.bold("you>")) + " "

    async def _turn(self, text: str) -> bool:
        """Show one turn; whether it ended well. Raises ``Leave`` at the second Ctrl-C."""
        turn = self._agent.turn(text)
        shown = asyncio.create_task(self._show(turn))
        stop = Stop(self._agent, turn, shown, self._view, self._style)
        async with self._progress:
            self._progress.show("sending")
            with on_interrupt(stop.pressed):
                await asyncio.wait([shown])
            await stop.settled()
        if shown.cancelled():
            raise Leave
        shown.result()
        return turn.end is not None and turn.end.ok

    async def _show(self, turn: Turn) -> None:
        async for received in turn:
            self._view.take(received.event)


class Stop:
    """Ctrl-C: the first cancels the task as soon as it is known, the second leaves."""

    def __init__(self, agent: Agent, turn: Turn, shown: "asyncio.Task[None]", view: TurnView, style: Style) -> None:
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
        with suppress(asyncio.CancelledError, Conflict):
            await self._asked

    async def _cancel(self) -> None:
        while self._turn.task_id is None:
            await asyncio.sleep(0.05)  # not routed yet: its task has no name
        try:
            await self._agent.management.cancel_task(self._turn.task_id)
        except Conflict:
            return
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
