"""A message that a person moved, as an evaluation case: what routing knew, and where the message belongs. Pure.

The form is that of labelled messages, which ``make eval-routing`` reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.shared.actors.mail import NEW_TASK
from pentad.shared.actors.session_header import excerpt
from pentad.shared.actors.transcript import remaining
from pentad.shared.immutable import immutable

MOST_TURNS = 32
"""Of a task: its first, and the last."""
MOST_CHARS = 1_000
"""Of what somebody said."""
Case = dict[str, Any]
Line = dict[str, Any]
"""An entry of a transcript as inspection shows it."""


@immutable
class MovedMessage:
    """What was moved."""

    message_id: str
    content: str
    at: str
    """When it was routed."""


def said_before(moved: MovedMessage, lines: Sequence[Line]) -> list[Line]:
    """What was said in a task when the message came, without the message: its first turn, and the last ones."""
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
    """The case; None when there was no task to choose. ``said``: as `said_before` gives it, by task.

    ``to``: a task's id, or `NEW_TASK`; one that began later was a new one then. ``about``: where it comes from.
    """
    live = sorted((task for task in said if said[task]), key=lambda task: _spoken_at(said[task]), reverse=True)
    if not live:
        return None
    tasks = [_task(task, rank, said[task]) for rank, task in enumerate(live)]
    case = {"id": name, "lang": _language(moved.content), "message": moved.content[:MOST_CHARS], "tasks": tasks}
    return labelled(case | {"provenance": dict(about)}, to)


def labelled(case: Case, to: str) -> Case:
    """The case with another word on where its message belongs: the last one counts.

    Raises ``KeyError`` and ``TypeError`` for what is no case.
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
    """When its user spoke to a task last."""
    return max((str(line.get("at", "")) for line in said if line["role"] == "user"), default="")


def _task(task: str, rank: int, said: Sequence[Line]) -> dict[str, Any]:
    turns = [{"role": line["role"], "text": _text(line)} for line in said]
    asked = turns[-1]["role"] == "assistant" and turns[-1]["text"].rstrip().endswith(("?", "？"))
    return {"id": task, "goal": turns[0]["text"], "last_active_rank": rank, "asked": asked, "messages": turns}


def _text(line: Line) -> str:
    """Of an answer its beginning and its end, as a session keeps it."""
    text: str = line["content"]
    return excerpt(text) if line["role"] == "assistant" else text[:MOST_CHARS]


def _language(text: str) -> str:
    return "zh" if any("\u3400" <= character <= "\u9fff" for character in text) else "en"
