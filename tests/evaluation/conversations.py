"""Conversations with questions about them, from a file: what a memory is asked, and which turns it should find."""

import gzip
import json
from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from pentad.shared.immutable import immutable
from tests.evaluation.labelled import MOST_BYTES, UnreadableDataError

ADVERSARIAL = "adversarial"
"""The category of questions that have no answer; they are left out."""
_DATES = (
    "%I:%M %p on %d %B, %Y",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d",
    "%d.%m.%Y, %H:%M:%S",
    "%d %B %Y",
    "%d %B, %Y",
    "%B %d, %Y",
    "%B-%d-%Y",
)
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "agent": "assistant"}


@immutable
class AskedQuestion:
    """A question, and the turns in which its answer stands."""

    text: str
    category: str
    evidence: frozenset[str]


@immutable
class RecordedTask:
    """One session of a conversation, as the transcript of a task."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    turns: tuple[str, ...]
    """The ids of the turns, by position."""


@immutable
class RecordedConversation:
    """A conversation: a memory of its own."""

    id: str
    tasks: tuple[RecordedTask, ...]
    questions: tuple[AskedQuestion, ...]


def read_conversations(path: Path) -> list[RecordedConversation]:
    """The conversations of a JSON file, gzipped or not. Raises `UnreadableDataError`."""
    try:
        items = json.loads(_content(path))
    except (OSError, EOFError, ValueError) as error:
        raise UnreadableDataError(f"{path} cannot be read: {error}") from error
    if not isinstance(items, list) or not items:
        raise UnreadableDataError(f"{path} holds no list of conversations")
    read = [_conversation(path, number, item) for number, item in enumerate(items)]
    if not any(conversation.questions for conversation in read):
        raise UnreadableDataError(f"{path} holds no question with evidence")
    return read


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    return content


def _conversation(path: Path, number: int, item: Any) -> RecordedConversation:
    try:
        sessions = groupby(item["turns"], key=lambda turn: turn["s"])
        tasks = tuple(_task(place, list(turns)) for place, (_, turns) in enumerate(sessions))
        asked = (
            AskedQuestion(str(each["q"]), str(each["cat"]), frozenset(map(str, each["ev_fix"]))) for each in item["qa"]
        )
        questions = tuple(each for each in asked if each.evidence and each.category != ADVERSARIAL)
        return RecordedConversation(str(item["id"]), tasks, questions)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableDataError(f"{path}, item {number}: {type(error).__name__} {error}") from error


def _task(place: int, turns: list[Mapping[str, Any]]) -> RecordedTask:
    return RecordedTask(f"task-0-{place}", tuple(map(_message, turns)), tuple(str(turn["id"]) for turn in turns))


def _message(turn: Mapping[str, Any]) -> dict[str, Any]:
    speaker = str(turn.get("speaker") or "")
    role = _ROLES.get(speaker.casefold())
    named = {} if role or not speaker else {"name": speaker}
    return {"role": role or "user", "content": str(turn["text"]), "at": _time(str(turn.get("date") or "")), **named}


def _time(date: str) -> str:
    """RFC 3339; empty for a date in none of the forms that are known."""
    for form in _DATES:
        try:
            return f"{datetime.strptime(date, form):%Y-%m-%dT%H:%M:%S}.000Z"
        except ValueError:
            continue
    return ""
