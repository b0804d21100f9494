"""``pentad dlq list|show|redrive|discard``: what was set aside."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import Style, ago, fitted, harmless, one_line, style_for, table, width
from pentad.errors import ClientError
from pentad.shared.settings import Settings

_HEADER = ("DEAD LETTER", "WHAT", "FOR", "AGE", "REASON")
_WHAT = {"entry": "entry", "session_mail": "message", "task_mail": "task", "call": "tool call"}
_EDIT_LIMIT = 1 << 20
_PAGE = 100
"""Letters of a list, when it is not said how many."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run one of the actions."""
    actions = {"list": _list, "show": _show, "redrive": _redrive, "discard": _discard}
    return run_async(actions[args.action](args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        letters = await agent.inspection.dead_letters(args.limit or _PAGE)
    if args.json:
        out.writelines(json.dumps(letter, ensure_ascii=False) + "\n" for letter in letters)
    elif letters:
        out.write(table(_HEADER, _rows(letters), style_for(out, settings)) + "\n")
    else:
        out.write("no dead letters\n")
    return 0


def _rows(letters: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return fitted(_HEADER, [(str(each["id"]), _what(each), _whom(each), _age(each), _why(each)) for each in letters])


def _why(letter: dict[str, Any]) -> str:
    return str(letter.get("reason") or letter.get("problem"))


def _what(letter: dict[str, Any]) -> str:
    return _WHAT.get(str(letter.get("kind")), "?")


def _whom(letter: dict[str, Any]) -> str:
    """The task that it was for, or the session."""
    return str(letter.get("task_id") or letter.get("session_id") or "-")


def _age(letter: dict[str, Any]) -> str:
    return ago(str(letter["at"])) if letter.get("at") else "-"


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        letter = await agent.inspection.dead_letter(args.id)
    if args.json:
        out.write(json.dumps(letter, ensure_ascii=False, indent=2) + "\n")
    else:
        out.write("\n".join(_lines(letter, style_for(out, settings))) + "\n")
    return 0


def _lines(letter: dict[str, Any], style: Style) -> list[str]:
    what = f"{_what(letter)}, entry {letter['entry_id']} of {letter['stream']}"
    facts = [("dead letter", letter["id"]), ("what", what)]
    facts += [(name, letter[field]) for name, field in _FOR_WHOM if field in letter]
    facts += [("reason", harmless(letter["reason"])), ("attempts", letter["attempts"]), ("set aside", _when(letter))]
    lines = [f"{style.dim(name.ljust(12))}{harmless(str(value))}" for name, value in facts]
    lines += ["", style.bold("what led to it"), *(f"  {harmless(_link(link))}" for link in letter["chain"])]
    clipped = " (the beginning: it was longer than what is kept)" if letter["clipped"] else ""
    lines += ["", style.bold(f"what was set aside{clipped}")]
    lines += [harmless(f"  {name}: {value}") for name, value in letter["body"].items()]
    return [*lines, "", style.bold("what a redrive sends"), *_proposal(letter["redrive"])]


_FOR_WHOM = (("tenant", "tenant_id"), ("session", "session_id"), ("task", "task_id"), ("tool call", "tool_call_id"))


def _when(letter: dict[str, Any]) -> str:
    return f"{letter['at']} ({ago(letter['at'])} ago)"


def _link(link: dict[str, Any]) -> str:
    about = f"  {one_line(harmless(str(link['is'])), max(40, width() - 30))}" if link.get("is") else ""
    return f"{link['kind'].ljust(8)} {link['id']}{about}"


def _proposal(redrive: dict[str, Any]) -> list[str]:
    if "problem" in redrive:
        return [f"  {redrive['problem']}"]
    if redrive["body"] is None:
        return ["  nothing: the task goes on where it stopped"]
    return [f"  {harmless(line)}" for line in json.dumps(redrive["body"], ensure_ascii=False, indent=2).splitlines()]


async def _redrive(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    if args.edit is not None and len(args.ids) > 1:
        raise ClientError("--edit is for one dead letter: name just one")
    edit = None if args.edit is None else _edit(args.edit)
    failed = 0
    async with operator_for(args, settings) as agent:
        for letter_id in args.ids:
            try:
                sent = await agent.management.redrive(letter_id, edit)
            except ClientError as error:
                if len(args.ids) == 1:
                    raise
                err.write(f"{letter_id}: {error}\n")
                failed += 1
            else:
                out.write(f"{letter_id} was sent again: {_sent(sent)}\n")
    return 1 if failed else 0


def _sent(sent: dict[str, Any]) -> str:
    if sent.get("repeated"):
        return "an earlier redrive had been cut off after that"
    if "message_ids" in sent:
        return f"message {', '.join(sent['message_ids'])} in session {sent['session_id']}"
    return next(f"{name.removesuffix('_id')} {sent[name]}" for name in ("task_id", "stream", "actor") if name in sent)


def _edit(file: str) -> dict[str, Any]:
    """The JSON object of a file. Raises ``ClientError``."""
    try:
        raw = sys.stdin.buffer.read(_EDIT_LIMIT + 1) if file == "-" else _read(Path(file))
        found = json.loads(raw)
    except OSError as error:
        raise ClientError(f"--edit {file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ClientError(f"--edit {file} is not JSON: {error}") from None
    if len(raw) > _EDIT_LIMIT:
        raise ClientError(f"--edit {file} is longer than {_EDIT_LIMIT} bytes")
    if not isinstance(found, dict):
        raise ClientError(f"--edit {file} must be a JSON object, like `redrive.body` of `pentad dlq show ID --json`")
    return found


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_EDIT_LIMIT + 1)


async def _discard(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        for letter_id in args.ids:
            await agent.management.discard(letter_id)
            out.write(f"{letter_id} was removed\n")
    return 0
