"""Computes how likely a message belongs to each of a session's tasks, or begins a new one, without a model.

Similarity alone is worse than "the task that was spoken to last". So it is one of several signs, beside recency, the
task's last question, a goodbye, and the shape of the message: a softmax over the tasks and "new". The weights are few
and round, and none of them depends on a subject.
"""

import math
from collections.abc import Iterable, Sequence, Set
from operator import attrgetter

from pentad.shared.digests.task_digest import TaskDigest, Utterance, likeness
from pentad.shared.immutable import immutable

CANDIDATES, CANDIDATES_OF_MANY = 3, 5
"""Candidates that a model is asked about; `CANDIDATES_OF_MANY` in a session of `MANY_TASKS` tasks or more."""
MANY_TASKS = 6
SURE = 0.9
"""Probability from which a decision needs no confirmation by a model."""
_FARTHEST = 5
"""Rank from which a task does not become less likely for having been spoken to longer ago."""
_LONG_WORDS = 25
"""Words of a request from which its length does not count any more."""
_LONG_TURN = 40
"""Words of a turn from which a shared word counts less."""


@immutable
class Weights:
    """Weights of the signs in the score of a task, or of "new"; their unit is the logarithm of odds."""

    recency: float = 0.6
    """Subtracted for each task that was spoken to since."""
    leans: float = 0.6
    """Added to the last task alone for each of these: the message begins as a reply, refers back, is short."""
    answers: float = 2.0
    """Added when the message gives what the task's last question asked for."""
    closed: float = -2.5
    """Added when the talk in the task has ended with a goodbye, and the message is not a goodbye itself."""
    thanks: float = 2.0
    """Added when the message thanks or says goodbye, and the task has answered."""
    words: float = 1.5
    """Factor of the words shared with the last turn: words that are rare in the session count more (logarithm)."""
    history: float = 0.8
    """Factor of the words shared with what was said in the task before its last turn (logarithm)."""
    meaning: float = 5.0
    """Factor of the cosine to the task's last turns, above the average of the session's tasks."""
    new: float = -2.5
    """Score that "new" begins with."""
    request: float = 2.0
    """Added to "new" for ten words of a request or question."""
    begins: float = 1.2
    """Added to "new" for a message that asks for something, greets, or names something unknown, for each of these."""
    refers: float = -1.5
    """Added to "new" for a message that begins as a reply or refers back, for each of these."""
    like_a_goal: float = 2.5
    """Factor for "new": how much more the words resemble the beginnings of tasks than what was said since."""


WEIGHTS = Weights()


@immutable
class Chance:
    """The probability of one task, or of "new", and its signs."""

    rank: int | None
    """Place of the task among those given, 0 for the one that was spoken to last; None for a new task."""
    probability: float
    signs: dict[str, float]
    """Parts of the score: each of the `Weights` that took part, with what it added."""


@immutable
class Ranking:
    """The chances of all tasks and of "new". Their probabilities add up to 1."""

    chances: tuple[Chance, ...]
    """Chances, the most likely first."""

    @property
    def best(self) -> Chance:
        """The most likely chance."""
        return self.chances[0]

    def sure(self, least: float = SURE) -> bool:
        """Whether the best chance may be taken without asking a model."""
        return self.best.probability >= least

    def candidates(self) -> tuple[Chance, ...]:
        """The tasks that a model is asked about, the most likely first; the one that was spoken to last among them."""
        tasks = [chance for chance in self.chances if chance.rank is not None]
        most = CANDIDATES_OF_MANY if len(tasks) >= MANY_TASKS else CANDIDATES
        kept = tasks[:most]
        if all(chance.rank for chance in kept):
            kept = [*kept[:-1], *(chance for chance in tasks if chance.rank == 0)]
        return tuple(kept)


_PROBABILITY = attrgetter("probability")


def rank_tasks(message: Utterance, tasks: Sequence[TaskDigest], weights: Weights = WEIGHTS) -> Ranking:
    """Rank the tasks for a message. ``tasks``: the one that was spoken to last first; without any, "new" is certain."""
    rarity = _Rarity(message, tasks)
    meaning = _meaning(message, tasks)
    signs = [_task_signs(message, task, rank, rarity, meaning[rank], weights) for rank, task in enumerate(tasks)]
    return _ranking([*enumerate(signs), (None, _new_signs(message, tasks, rarity, weights))])


class _Rarity:
    """Weights of a message's words: the fewer tasks know a word, the more it says about which task is meant."""

    def __init__(self, message: Utterance, tasks: Sequence[TaskDigest]) -> None:
        self._words = frozenset(message.words)
        self.known = [self._words.intersection(task.known) for task in tasks]
        """Words of the message that each task knows."""
        tasks_with = dict.fromkeys(self._words, 0)
        for words in self.known:
            for word in words:
                tasks_with[word] += 1
        self._weight = {word: math.log(1 + len(tasks) / (count + 0.5)) for word, count in tasks_with.items()}
        self._all = 1.0 + math.fsum(self._weight.values())

    def weight(self, words: Set[int]) -> float:
        """Sum of the weights of these words of the message."""
        return math.fsum(map(self._weight.__getitem__, words))

    def largest_share(self, parts: Sequence[Iterable[int]]) -> float:
        """The largest share of the message's weight that the words of one part have; below 1."""
        return max([self.weight(self._words.intersection(part)) for part in parts], default=0.0) / self._all


def _task_signs(
    message: Utterance, task: TaskDigest, rank: int, rarity: _Rarity, meaning: float, weights: Weights
) -> dict[str, float]:
    cues = message.cues
    known, last_turn = rarity.known[rank], {*task.said, *task.answered}
    shared = rarity.weight(known & last_turn) / max(1.0, len(last_turn) / _LONG_TURN)
    before = rarity.weight(known - last_turn)
    return {
        "recency": -weights.recency * min(rank, _FARTHEST),
        "leans": weights.leans * (cues.reply + cues.refers + cues.short) * (rank == 0),
        "answers": weights.answers * (task.asked != "" and cues.gives(task.asked)),
        "closed": weights.closed * (task.closed and not cues.farewell),
        "thanks": weights.thanks * (cues.farewell and not task.closed and not task.asked),
        "words": weights.words * math.log1p(shared),
        "history": weights.history * math.log1p(before),
        "meaning": weights.meaning * meaning,
    }


def _new_signs(message: Utterance, tasks: Sequence[TaskDigest], rarity: _Rarity, weights: Weights) -> dict[str, float]:
    cues = message.cues
    like_goals = rarity.largest_share([task.goal for task in tasks])
    like_tasks = rarity.largest_share(rarity.known)
    return {
        "new": weights.new,
        "request": weights.request * cues.requests * min(cues.length, _LONG_WORDS) / 10,
        "begins": weights.begins * (cues.opener + cues.greeting + cues.indefinite),
        "refers": weights.refers * (cues.reply + cues.refers),
        "like_a_goal": weights.like_a_goal * (like_goals - like_tasks),
    }


def _meaning(message: Utterance, tasks: Sequence[TaskDigest]) -> list[float]:
    """Cosine of each task's last turns above their average, for the cosines of different models differ in level."""
    if message.sketch is None:
        return [0.0] * len(tasks)
    found = [None if task.sketch is None else likeness(message.sketch, task.sketch) for task in tasks]
    known = [cosine for cosine in found if cosine is not None]
    average = math.fsum(known) / len(known) if known else 0.0
    return [0.0 if cosine is None else cosine - average for cosine in found]


def _ranking(scored: Sequence[tuple[int | None, dict[str, float]]]) -> Ranking:
    scores = [math.fsum(signs.values()) for _, signs in scored]
    highest = max(scores)
    odds = [math.exp(score - highest) for score in scores]
    whole = math.fsum(odds)
    chances = [
        Chance(rank, odd / whole, {sign: value for sign, value in signs.items() if value})
        for odd, (rank, signs) in zip(odds, scored, strict=True)
    ]
    chances.sort(key=_PROBABILITY, reverse=True)
    return Ranking((*chances,))
