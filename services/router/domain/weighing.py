"""What the rules leave open is weighed: the most likely of the session's tasks, or a new one. Pure."""

from collections.abc import Sequence

from pentad.services.router.domain.continuation import only_continues
from pentad.services.router.domain.reasons import reason_of
from pentad.services.router.domain.rules import Question, Route, listed
from pentad.services.router.domain.scoring import SURE, WEIGHTS, Ranking, Weights, rank_tasks
from pentad.shared.digests.task_digest import TaskDigest, Utterance


def weighed(question: Question, message: Utterance, digests: Sequence[TaskDigest], weights: Weights = WEIGHTS) -> Route:
    """Route a message by what it says. ``digests``: of the question's tasks, in their order."""
    if is_continuation(question, message, digests):
        reason = "the message only goes on with the session's one live task"
        return Route("append", reason, question.tasks[0], candidates=listed(question.tasks))
    return _likeliest(question, rank_tasks(message, digests, weights))


def is_continuation(question: Question, message: Utterance, digests: Sequence[TaskDigest]) -> bool:
    """Whether a rule decides after all: one live task, and a message that makes no sense but as its continuation."""
    return len(digests) == 1 and not question.tasks[0].ended and only_continues(message, digests[0])


def is_sure(route: Route) -> bool:
    """Whether a decision needs nobody's confirmation."""
    return route.stage != "similarity" or route.confidence >= SURE


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
