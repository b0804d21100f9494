"""How likely a message belongs to each of a session's tasks, or begins a new one: weighed without a model.

Similarity alone is worse than "the task that was spoken to last". So it is one of several signs beside recency, what
was asked, who has said goodbye, and the shape of the message: a softmax over the tasks and "new". The weights are few
and round, and none of them knows a subject.
"""

import math
from collections.abc import Iterable, Sequence, Set
from operator import attrgetter

from pentad.shared.digests.task_digest import TaskDigest, Utterance, likeness
from pentad.shared.immutable import immutable

FEW, SEVERAL = 3, 5
"""How many candidates are looked at more closely; `SEVERAL` where `MANY` tasks are live."""
MANY = 6
SURE = 0.9
"""A decision of this probability needs nobody's confirmation."""
_FARTHEST = 5
"""Beyond this rank, a task is no less likely for having been spoken to longer ago."""
_LONG_WORDS = 25
_LONG_TURN = 40
"""Of turns with more words than this, a shared word says less."""


@immutable
class Weights:
    """What each sign adds to the score of a task, or of "new". Their unit is the logarithm of odds."""

    recency: float = 0.6
    """Taken for each task that was spoken to since."""
    leans: float = 0.6
    """The message begins as a reply, refers back, is short: given for each of these to the last task alone."""
    answers: float = 2.0
    """It gives what the task's last question asked for."""
    closed: float = -2.5
    """There the talk had come to its end with a goodbye, and the message is none."""
    thanks: float = 2.0
    """It thanks or says goodbye, and this task had answered."""
    words: float = 1.5
    """For the words that it shares with the last turn, the rarer in the session the more (logarithm)."""
    history: float = 0.8
    """For the words that it shares with what was said there before the last turn, likewise."""
    meaning: float = 5.0
    """For its cosine to the last turns, above the average of the session's tasks."""
    new: float = -2.5
    """What "new" begins with."""
    request: float = 2.0
    """For ten words of a request or question."""
    begins: float = 1.2
    """It asks for something, greets, brings up something unknown: given for each of these."""
    refers: float = -1.5
    """It begins as a reply, refers back: for each of these."""
    like_a_goal: float = 2.5
    """Its words are more like what tasks began with than like what was said since: the difference of the shares."""


WEIGHTS = Weights()


@immutable
class Chance:
    """One of the tasks, or "new", with what speaks for it."""

    rank: int | None
    """The task's place among those given, 0 for the one that was spoken to last; None for a new task."""
    probability: float
    signs: dict[str, float]
    """What its score is made of: each of the `Weights` that took part, with what it added."""


@immutable
class Ranking:
    """What a message could belong to. Probabilities add up to 1."""

    chances: tuple[Chance, ...]
    """The most likely first."""

    @property
    def best(self) -> Chance:
        """The most likely."""
        return self.chances[0]

    def sure(self, least: float = SURE) -> bool:
        """Whether the best may be taken without asking a model."""
        return self.best.probability >= least

    def candidates(self) -> tuple[Chance, ...]:
        """The tasks that a model is asked about, the most likely first; the one that was spoken to last among them."""
        tasks = [chance for chance in self.chances if chance.rank is not None]
        most = SEVERAL if len(tasks) >= MANY else FEW
        kept = tasks[:most]
        if all(chance.rank for chance in kept):
            kept = [*kept[:-1], *(chance for chance in tasks if chance.rank == 0)]
        return tuple(kept)


_PROBABILITY = attrgetter("probability")


def rank_tasks(message: Utterance, tasks: Sequence[TaskDigest], weights: Weights = WEIGHTS) -> Ranking:
    """Weigh a message. ``tasks``: the one that was spoken to last first; with none of them, it is new for certain."""
    rarity = _Rarity(message, tasks)
    meaning = _meaning(message, tasks)
    signs = [_task_signs(message, task, rank, rarity, meaning[rank], weights) for rank, task in enumerate(tasks)]
    return _ranking([*enumerate(signs), (None, _new_signs(message, tasks, rarity, weights))])


class _Rarity:
    """How much each word of a message says about which task is meant: the fewer know it, the more."""

    def __init__(self, message: Utterance, tasks: Sequence[TaskDigest]) -> None:
        self._words = frozenset(message.words)
        self.known = [self._words.intersection(task.known) for task in tasks]
        """The words of the message that each task knows."""
        tasks_with = dict.fromkeys(self._words, 0)
        for words in self.known:
            for word in words:
                tasks_with[word] += 1
        self._weight = {word: math.log(1 + len(tasks) / (count + 0.5)) for word, count in tasks_with.items()}
        self._all = 1.0 + math.fsum(self._weight.values())

    def weight(self, words: Set[int]) -> float:
        """The sum over these words of the message."""
        return math.fsum(map(self._weight.__getitem__, words))

    def largest_share(self, parts: Sequence[Iterable[int]]) -> float:
        """The most that the words of one part weigh, of all words of the message; below 1."""
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
    """How much nearer than their average each task's last turns are: cosines of different models differ in level."""
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
