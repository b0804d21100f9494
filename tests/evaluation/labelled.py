"""Labelled messages from a file: what a session's tasks said so far, and which of them the message belongs to."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pentad.shared.immutable import immutable

MOST_BYTES = 256 * 1024 * 1024
"""Of a file, uncompressed."""
NEW = "new"

MessageKind = Literal["continue", "switch", "new"]
SpokenTurn = tuple[Literal["user", "assistant"], str]
"""Who said it, and what."""


class UnreadableDataError(ValueError):
    """The file holds no labelled messages; the text says where and why."""


@immutable
class LabelledTask:
    """A live task of the session."""

    id: str
    turns: tuple[SpokenTurn, ...]


@immutable
class LabelledMessage:
    """A message whose task is known."""

    id: str
    language: str
    text: str
    tasks: tuple[LabelledTask, ...]
    """The one that was spoken to last first."""
    gold: str
    """A task's id, or `NEW`."""
    kind: MessageKind
    """``continue``: the task that was spoken to last; ``switch``: back to another; ``new``."""


def read_labelled(path: Path) -> list[LabelledMessage]:
    """The messages of a JSON file, gzipped or not, a list or one a line; or of a folder of such files with one each,
    as ``PENTAD_EVAL_CASES`` names it. Raises `UnreadableDataError`.
    """
    try:
        items = _items(b"\n".join(_contents(sorted(path.glob("*.json")) if path.is_dir() else [path])))
    except (OSError, EOFError, ValueError) as error:
        raise UnreadableDataError(f"{path} cannot be read: {error}") from error
    if not isinstance(items, list) or not items:
        raise UnreadableDataError(f"{path} holds no list of messages")
    return [_message(path, number, item) for number, item in enumerate(items)]


def _items(content: bytes) -> Any:
    if content.lstrip()[:1] == b"[":
        return json.loads(content)
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def _contents(paths: Sequence[Path]) -> Iterator[bytes]:
    left = MOST_BYTES
    for path in paths:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        yield content


def _message(path: Path, number: int, item: Any) -> LabelledMessage:
    try:
        tasks = sorted(item["tasks"], key=lambda task: int(task["last_active_rank"]))
        read = LabelledMessage(
            id=str(item["id"]),
            language=str(item["lang"]),
            text=str(item["message"]),
            tasks=tuple(_task(task) for task in tasks),
            gold=str(item["gold"]),
            kind=item["kind"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableDataError(f"{path}, item {number}: {type(error).__name__} {error}") from error
    if read.kind not in get_args(MessageKind) or read.gold not in {NEW, *(task.id for task in read.tasks)}:
        raise UnreadableDataError(f"{path}, item {number}: its kind or its gold is none of those there are")
    return read


def _task(task: Mapping[str, Any]) -> LabelledTask:
    turns = ((message["role"], str(message["text"])) for message in task["messages"])
    return LabelledTask(
        str(task["id"]), tuple(("user" if role == "user" else "assistant", text) for role, text in turns)
    )
