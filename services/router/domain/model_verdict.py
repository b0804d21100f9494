"""The question that a model is asked when similarity is not sure, and the meaning of its answer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic_core import from_json, to_json

from pentad.services.router.domain.rules import Question, Route
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import SessionMessage
from pentad.shared.immutable import immutable

NEW = "new"
_TURNS = 4
"""Last turns of a task that the model is shown."""
_CHARS = 400
"""Characters of the goal and of each turn that the model is shown."""
_MESSAGE_CHARS = 4_000
"""Characters of the message itself that the model is shown."""


@immutable
class Verdict:
    """The model's answer. It is stored before it is used, so that a crash does not ask again."""

    task: str
    """Id of a candidate, or `NEW`."""
    confidence: float
    reason: str
    model: str


def candidates_of(question: Question, weighed: Route) -> list[TaskHeader]:
    """The tasks that the model is asked about: the candidates of the route."""
    by_id = {task.task_id: task for task in question.tasks}
    return [by_id[name] for name in weighed.candidates]


def question_text(message: str, tasks: Sequence[TaskHeader], turns: Sequence[SessionMessage]) -> str:
    """The question for the `router` instruction. Tasks are numbered: ids are long, and models misspell them."""
    shown = [
        {
            "task": str(number),
            "status": task.status,
            "began_with": task.goal[:_CHARS],
            "last_turns": [f"{turn.role}: {turn.content[:_CHARS]}" for turn in turns if turn.task_id == task.task_id][
                -_TURNS:
            ],
        }
        for number, task in enumerate(tasks, start=1)
    ]
    return to_json({"tasks": shown, "message": message[:_MESSAGE_CHARS]}).decode()


def verdict_of(value: object, tasks: Sequence[TaskHeader], model: str) -> Verdict:
    """Read the model's answer.

    Raises ``ValueError`` for a task that was not asked about, and ``KeyError``, ``TypeError`` or ``OverflowError`` for
    a missing or impossible field: a user's own instruction may have another schema.
    """
    if not isinstance(value, Mapping):
        raise TypeError("it is no object with `task`, `confidence` and `reason`")
    named = str(value["task"])[:_CHARS]
    known = {str(number): task.task_id for number, task in enumerate(tasks, start=1)} | {NEW: NEW}
    if named not in known:
        raise ValueError(f"task: there is no {named!r}; there are {', '.join(known)}")
    confidence = min(1.0, max(0.0, float(value["confidence"])))
    return Verdict(known[named], confidence, str(value.get("reason") or "")[:_CHARS], model[:_CHARS])


def verdict_bytes(verdict: Verdict, entry_id: str) -> bytes:
    """Encode a verdict for the session's header. ``entry_id``: the entry of the message that it is about."""
    fields = (entry_id, verdict.task, verdict.confidence, verdict.reason, verdict.model)
    return to_json(fields)


def kept_verdict(kept: bytes, entry_id: str, tasks: Sequence[TaskHeader]) -> Verdict | None:
    """Decode the verdict that was stored for this message; None when there is none, or its task is not among these."""
    try:
        about, task, confidence, reason, model = from_json(kept)
        verdict = Verdict(str(task), float(confidence), str(reason), str(model))
    except (ValueError, TypeError):
        return None
    known = {NEW, *(each.task_id for each in tasks)}
    return verdict if about == entry_id and verdict.task in known else None


def confirmed(question: Question, weighed: Route, verdict: Verdict, threshold: float) -> Route:
    """The route that the model decides, or the one by similarity where the model is less sure than ``threshold``."""
    if verdict.confidence < threshold:
        unsure = f"{weighed.reason}; {verdict.model} was asked and is not sure ({verdict.confidence:.2f})"
        return replace(weighed, reason=unsure)
    task = next((task for task in question.tasks if task.task_id == verdict.task), None)
    return replace(
        weighed,
        decision="new" if task is None else "reopen" if task.ended else "append",
        reason=f"{verdict.model} says: {verdict.reason}",
        task=task,
        confidence=round(verdict.confidence, 3),
        stage="model",
    )


def without_model(weighed: Route, why: str) -> Route:
    """The route by similarity, with the reason why no model has confirmed it."""
    return replace(weighed, reason=f"{weighed.reason}; no model confirms it: {why[:_CHARS]}")


def begun_alone(weighed: Route) -> Route:
    """The route of a message that needs nothing of an ended task, where the offline model answers."""
    reason = "the offline model needs nothing of before to answer it"
    return replace(weighed, decision="new", reason=reason, task=None, confidence=1.0, stage="rule")
