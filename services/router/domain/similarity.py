"""The most likely of a session's tasks, or a new one, for a message that no rule decides. Pure."""

from collections.abc import Sequence

from pentad.services.router.domain.rules import Question, Route, listed
from pentad.services.router.domain.scoring import SURE, WEIGHTS, Chance, Ranking, Weights, rank_tasks
from pentad.shared.digests.task_digest import TaskDigest, Utterance

_MAX_REASONS = 3
"""Signs that a reason names, at most."""
_PHRASES = {
    "leans": "the message leans on what was said last",
    "answers": "it answers what the task asked",
    "thanks": "it thanks for an answer",
    "words": "it shares words with the last turn",
    "history": "it shares words with what was said there before",
    "meaning": "in meaning it is nearer than to other tasks",
    "request": "it asks for something",
    "begins": "it begins something",
    "like_a_goal": "its words are like those that tasks begin with",
}
"""The signs that can speak for a task or for a new one; the others only speak against."""


def route_by_similarity(
    question: Question, message: Utterance, digests: Sequence[TaskDigest], weights: Weights = WEIGHTS
) -> Route:
    """Route a message to the most likely task. ``digests``: of the question's tasks, in their order."""
    if is_continuation(question, message, digests):
        reason = "the message only goes on with the session's one live task"
        return Route("append", reason, question.tasks[0], candidates=listed(question.tasks))
    return _likeliest(question, rank_tasks(message, digests, weights))


def is_continuation(question: Question, message: Utterance, digests: Sequence[TaskDigest]) -> bool:
    """Whether a rule decides after all: one live task, and a message that makes no sense but as its continuation."""
    return len(digests) == 1 and not question.tasks[0].ended and only_continues(message, digests[0])


def only_continues(message: Utterance, task: TaskDigest) -> bool:
    """Whether a message makes sense only as the continuation of the session's one live task: "and Beijing?".

    It is a few words that answer, refer back, or name a number, a time or a place, and begin nothing. A talk that has
    come to its end with a goodbye is not continued.
    """
    cues = message.cues
    begins = cues.opener or cues.greeting or cues.indefinite
    return cues.short and not begins and not task.closed and (cues.refers or cues.gives_something)


def is_sure(route: Route) -> bool:
    """Whether a decision needs no confirmation by a model."""
    return route.stage != "similarity" or route.confidence >= SURE


def reason_of(ranking: Ranking) -> str:
    """Describe the best chance for a person: its probability, and what speaks for it, the weightiest sign first."""
    best = ranking.best
    what = "a new task" if best.rank is None else "this task"
    return f"{what} is the most likely ({best.probability:.2f}): {', '.join(_phrases_for(best))}"


def _phrases_for(best: Chance) -> list[str]:
    signs = sorted(best.signs.items(), key=lambda sign: -sign[1])
    phrases = [f"{_PHRASES.get(sign, sign)} ({value:+.1f})" for sign, value in signs[:_MAX_REASONS] if value > 0]
    otherwise = {0: "it was spoken to last", None: "there is nothing that it could go on with"}
    return phrases or [otherwise.get(best.rank, "less speaks against it")]


def _likeliest(question: Question, ranking: Ranking) -> Route:
    best = ranking.best
    shown = [(chance.rank, chance.probability) for chance in ranking.candidates() if chance.rank is not None]
    scores = {question.tasks[rank].task_id: round(probability, 3) for rank, probability in shown}
    task = None if best.rank is None else question.tasks[best.rank]
    return Route(
        "new" if task is None else "reopen" if task.ended else "append",
        reason_of(ranking),
        task,
        instruction=question.instruction,
        candidates=[*scores],
        scores=scores,
        confidence=round(best.probability, 3),
        stage="similarity",
    )
