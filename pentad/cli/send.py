"""``pentad send``: one message, and what the agent says until its turn is over."""

import argparse
import asyncio
import json
from typing import TextIO

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.lines import PlainLines
from pentad.cli.session_view import SessionView
from pentad.cli.spinner import CLEAR, Spinner
from pentad.contracts.events import ControlResult, MessageEvent, SessionEvent, Snapshot
from pentad.contracts.turns import TurnEnd
from pentad.feed import Received
from pentad.render import harmless, style_for
from pentad.shared.settings import Settings
from pentad.text import said_in


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Send, follow the turn to its end, print what the agent says. 1 when the turn failed."""
    return run_async(_send(args, settings))


async def _send(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    watched = err.isatty() and not args.json
    progress, outage = Spinner(err, watched), Outage(err)
    async with progress, agent_for(args, settings, progress.show if watched else outage.goes_on) as agent:
        turn = agent.turn(args.text, session_id=args.session, task_id=args.task, instruction=args.instruction)
        answers = Answers(out, progress)
        view = SessionView(PlainLines(err), style_for(err, settings), progress, live=False) if watched else None
        if watched:
            progress.show("sending")
        try:
            async for received in turn:
                outage.over()
                if args.json:
                    _print_json(received, out)
                    continue
                if view is not None and not isinstance(received.event, MessageEvent | ControlResult):
                    view.show(received.event)
                answers.show(received.event, turn.task_id)
        except asyncio.CancelledError:  # Ctrl-C
            if err.isatty():
                progress.show("")
                err.write(CLEAR)  # the terminal's "^C"
                _tell_left(turn.task_id, err)
            raise
    end = turn.end or TurnEnd("error", "the turn did not end")
    if not args.json and view is None and end.outcome != "completed":
        _tell(end, err)
    return 0 if end.ok else 1


class Outage:
    """Says where nobody watches, once until it is over, that the gateway is not there and is tried again.

    A connection that was lost and is made again at the first attempt is not worth a word.
    """

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._failures = 1

    def goes_on(self, why: str) -> None:
        """The connection is lost, or another attempt at it has failed."""
        self._failures += 1
        if self._failures == 2:
            self._err.write(f"no connection to the gateway: {why}\n")
            self._err.flush()

    def over(self) -> None:
        """The gateway is there."""
        self._failures = 0


class Answers:
    """Prints the text of each step that has one, whole and once, in order: a turn may answer several messages."""

    def __init__(self, out: TextIO, progress: Spinner) -> None:
        self._out = out
        self._progress = progress
        self._last = ""

    def show(self, event: SessionEvent, task_id: str | None) -> None:
        """Print what the agent says in this event, if anything."""
        told = said_in(event, task_id)
        if not (isinstance(event, Snapshot) and told == self._last):  # what was said while we were away
            self._print(told)

    def _print(self, text: str) -> None:
        if text.strip():
            self._last = text
            self._progress.clear()
            self._out.write((harmless(text) if self._out.isatty() else text).rstrip("\n") + "\n")
            self._out.flush()


def _print_json(received: Received, out: TextIO) -> None:
    out.write(json.dumps(received.raw, ensure_ascii=False) + "\n")
    out.flush()


def _tell(end: TurnEnd, err: TextIO) -> None:
    """Why there is no answer, or what is waited for."""
    word = "waiting for you" if end.outcome == "waiting" else end.outcome
    err.write(f"{word}: {end.reason}\n" if end.reason else f"{word}\n")


def _tell_left(task_id: str | None, err: TextIO) -> None:
    """What becomes of a turn that is followed no more."""
    if task_id is None:
        err.write("nobody follows it now, but the message may be on its way: `pentad tasks` shows what runs\n")
    else:
        err.write(f"the task goes on: `pentad cancel {task_id}` stops it\n")
