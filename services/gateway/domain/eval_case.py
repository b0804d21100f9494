"""Evaluation cases of moved messages: the data that routing had, and the task where the message belongs. Pure.

They have the form of the labelled messages that ``make eval-routing`` reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.shared.actors.mail import NEW_TASK
from pentad.shared.actors.session_header import excerpt
from pentad.shared.actors.transcript import remaining
from pentad.shared.immutable import immutable

MOST_TURNS = 32
"""Turns that a case has of one task: the first one, and the last ones."""
MOST_CHARS = 1_000
"""Characters that a case has of one message."""
Case = dict[str, Any]
Line = dict[str, Any]
"""Entry of a transcript in the form that inspection shows."""


@immutable
class MovedMessage:
    """A message that a person moved."""

    message_id: str
    content: str
    at: str
    """Time at which the message was routed."""


def lines_before(moved: MovedMessage, lines: Sequence[Line]) -> list[Line]:
    """Return the first and the last lines of a task that were said before the moved message came."""
    found = []
    for line in remaining(lines):
        if line.get("message_id") == moved.message_id or str(line.get("at", "")) > moved.at:
            break
        if _is_said(line):
            found.append(line)
    return [*found[:1], *found[1:][-(MOST_TURNS - 1) :]]


def case_of(
    name: str, moved: MovedMessage, to: str, said: Mapping[str, Sequence[Line]], about: Mapping[str, str]
) -> Case | None:
    """Return the case; None if there was no task to choose. ``said``: the result of `lines_before` for each task.

    ``to``: a task's id, or `NEW_TASK`; a task that began after the message counts as new. ``about``: the case's origin.
    """
    live = sorted((task for task in said if said[task]), key=lambda task: _spoken_at(said[task]), reverse=True)
    if not live:
        return None
    tasks = [_task(task, rank, said[task]) for rank, task in enumerate(live)]
    case = {"id": name, "lang": _language(moved.content), "message": moved.content[:MOST_CHARS], "tasks": tasks}
    return labelled(case | {"provenance": dict(about)}, to)


def labelled(case: Case, to: str) -> Case:
    """Return the case with a new answer to where its message belongs: the last answer counts.

    Raises ``KeyError`` and ``TypeError`` for data that is no case.
    """
    ranks = {task["id"]: task["last_active_rank"] for task in case["tasks"]}
    gold = to if to in ranks else NEW_TASK
    kind = "new" if gold == NEW_TASK else "switch" if ranks[gold] else "continue"
    return case | {"gold": gold, "kind": kind}


def _is_said(line: Line) -> bool:
    if not isinstance(line.get("content"), str) or not line["content"] or line.get("origin"):
        return False
    return line["role"] == "user" or (line["role"] == "assistant" and "step" in line)


def _spoken_at(said: Sequence[Line]) -> str:
    """Return the time of the last user message of a task."""
    return max((str(line.get("at", "")) for line in said if line["role"] == "user"), default="")


def _task(task: str, rank: int, said: Sequence[Line]) -> dict[str, Any]:
    turns = [{"role": line["role"], "text": _text(line)} for line in said]
    asked = turns[-1]["role"] == "assistant" and turns[-1]["text"].rstrip().endswith(("?", "？"))
    return {"id": task, "goal": turns[0]["text"], "last_active_rank": rank, "asked": asked, "messages": turns}


def _text(line: Line) -> str:
    """Return the text of a line; of a long answer the beginning and the end, as a session keeps it."""
    text: str = line["content"]
    return excerpt(text) if line["role"] == "assistant" else text[:MOST_CHARS]


def _language(text: str) -> str:
    return "zh" if any("\u3400" <= character <= "\u9fff" for character in text) else "en"
