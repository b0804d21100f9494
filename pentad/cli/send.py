"""``pentad send``: one message, and what the agent says until its turn is over."""

import argparse
import asyncio
import json
from typing import TextIO

from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import speaker_for, streams
from pentad.cli.lines import PlainLines
from pentad.cli.render import harmless, one_line, style_for
from pentad.cli.session_view import SessionView
from pentad.cli.spinner import CLEAR, Spinner
from pentad.client.feed import Received
from pentad.client.text import said_in
from pentad.client.turns import About
from pentad.contracts.commands import NEW_TASK
from pentad.contracts.events import ControlResult, MessageEvent, SessionEvent, Snapshot, TaskEnd, TaskStatusEvent
from pentad.contracts.turns import ASKED, NEEDS_APPROVAL, TurnEnd
from pentad.shared.settings import Settings

_LINE = 1_000
"""Characters of a line that says what is waited for."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Send, follow the turn to its end, print what the agent says. 1 when the turn failed."""
    return run_async(_send(args, settings))


async def _send(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    watched = err.isatty() and not args.json
    progress, outage = Spinner(err, watched), Outage(err)
    async with progress, speaker_for(args, settings, progress.show if watched else outage.goes_on) as agent:
        session = args.session
        if args.task and args.task != NEW_TASK and session is None:
            session = (await agent.inspection.task(args.task)).session_id
        about: About = {"session_id": session, "task_id": args.task, "instruction": args.instruction}
        about["state"] = args.state
        turn = agent.turn(args.text, **about)
        view = SessionView(PlainLines(err), style_for(err, settings), progress, live=False) if watched else None
        if watched:
            progress.show("sending")
        printer = Printer(args.json, Answers(out, progress), view, outage, err)
        try:
            async with asyncio.timeout(args.timeout):
                async for received in turn:
                    printer.show(received, turn.task_id)
        except TimeoutError:
            progress.show("")
            err.write(f"no answer within {args.timeout:g} s: ")
            _tell_left(turn.task_id, err)
            return 1
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


class Printer:
    """Prints what comes: as JSON, or the answers, and beside them what happens, or the little that one must know."""

    def __init__(
        self, as_json: bool, answers: "Answers", view: SessionView | None, outage: "Outage", err: TextIO
    ) -> None:
        self._json, self._answers, self._view, self._outage, self._err = as_json, answers, view, outage, err
        self._told: set[str] = set()
        self._said_below: dict[str, MessageEvent] = {}
        """The last text of each task that the turn's task has started."""

    def show(self, received: Received, task_id: str | None) -> None:
        """One event of the turn, whose task is ``task_id``."""
        event = received.event
        self._outage.over()
        if self._json:
            _print_json(received, self._answers.out)
            return
        is_below = event.parent_task_id is not None and event.task_id != task_id
        if self._view is None:
            self._say_what_is_waited_for(event)
        elif is_below or not isinstance(event, MessageEvent | ControlResult):
            self._view.show(event)
        if is_below:
            self._below(event)
        else:
            self._answers.show(event, task_id)

    def _below(self, event: SessionEvent) -> None:
        """Take an event of a task that the turn's task has started: what it says is no answer, but its question is."""
        if isinstance(event, MessageEvent) and event.task_id is not None:
            self._said_below[event.task_id] = event
        elif isinstance(event, TaskEnd):
            self._said_below.pop(event.task_id or "", None)
        elif isinstance(event, TaskStatusEvent) and event.status == "waiting" and event.reason == ASKED:
            if self._view is None and (question := self._said_below.get(event.task_id or "")) is not None:
                self._answers.show(question, event.task_id)
            self._err.write(f"`pentad send --task {event.task_id} ANSWER` answers it\n")
            self._err.flush()

    def _say_what_is_waited_for(self, event: SessionEvent) -> None:
        """Where nobody watches: that a model does not answer, that others come first. Each once."""
        if not isinstance(event, TaskStatusEvent) or event.status not in ("active", "pending"):
            return
        if event.reason and event.reason not in self._told:
            self._told.add(event.reason)
            self._err.write(f"{one_line(event.reason, _LINE)}\n")
            self._err.flush()


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
        self.out = out
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
            self.out.write((harmless(text) if self.out.isatty() else text).rstrip("\n") + "\n")
            self.out.flush()


def _print_json(received: Received, out: TextIO) -> None:
    out.write(json.dumps(received.raw, ensure_ascii=False) + "\n")
    out.flush()


def _tell(end: TurnEnd, err: TextIO) -> None:
    """Why there is no answer, or what is waited for."""
    word = "waiting for you" if end.outcome == "waiting" else end.outcome
    how = "; `pentad approvals` shows what it waits for" if end.reason == NEEDS_APPROVAL else ""
    err.write(f"{word}: {harmless(end.why)}{how}\n" if end.why else f"{word}\n")


def _tell_left(task_id: str | None, err: TextIO) -> None:
    """Tell what happens to a turn that is no longer followed."""
    if task_id is None:
        err.write("nobody follows it now, but the message may be on its way: `pentad tasks` shows what runs\n")
    else:
        err.write(f"the task goes on: `pentad cancel {task_id}` stops it\n")
