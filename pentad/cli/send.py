"""``pentad send``: one message, its answer."""

import argparse
import json
from typing import TextIO

from contracts.events import MessageEvent, SessionEvent, Snapshot
from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.progress import Progress
from pentad.cli.render import harmless, style_for
from pentad.cli.view import TurnView
from pentad.client import Turn
from pentad.feed import Received
from pentad.turn import TurnEnd, answer_in
from shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Send, follow the turn to its end, print the answer. 1 when the turn failed."""
    return run_async(_send(args, settings))


async def _send(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    watched = err.isatty() and not args.json
    async with Progress(err, watched) as progress, agent_for(args, settings, progress.show) as agent:
        turn = agent.turn(args.text, session_id=args.session, task_id=args.task)
        view = TurnView(err, style_for(err, settings), progress, live=False) if watched else None
        if watched:
            progress.show("sending")
        answer = await _follow(turn, out if args.json else None, view)
    end = turn.end or TurnEnd("error", "the turn did not end")
    if not args.json:
        _print(answer, end, out, err, told=view is not None)
    return 0 if end.ok else 1


async def _follow(turn: Turn, json_lines: TextIO | None, view: TurnView | None) -> str:
    """The answer; on the way each event goes to whoever wants it."""
    answer = ""
    async for received in turn:
        answer = _answer_after(received.event, turn.task_id) or answer
        if json_lines is not None:
            _print_json(received, json_lines)
        elif view is not None and not isinstance(received.event, MessageEvent):
            view.take(received.event)
    return answer


def _answer_after(event: SessionEvent, task_id: str | None) -> str:
    if isinstance(event, MessageEvent):
        return event.content
    return answer_in(event, task_id) if isinstance(event, Snapshot) else ""


def _print_json(received: Received, out: TextIO) -> None:
    out.write(json.dumps(received.raw, ensure_ascii=False) + "\n")
    out.flush()


def _print(answer: str, end: TurnEnd, out: TextIO, err: TextIO, *, told: bool) -> None:
    """The answer to stdout; why there is none, or what is waited for, to stderr, unless the view told it."""
    if answer:
        out.write((harmless(answer) if out.isatty() else answer).rstrip("\n") + "\n")
        out.flush()
    if not told and end.outcome != "completed":
        word = "waiting for you" if end.outcome == "waiting" else end.outcome
        err.write(f"{word}: {end.reason}\n" if end.reason else f"{word}\n")
