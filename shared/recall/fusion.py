"""Fusion of five searches into one ranking: scores are scaled to 0..1, weighted and summed with facts of a segment.

A segment that a search did not find gets nothing from that search. A dense score counts from the lowest score that its
search found, since all texts are somewhat alike; a sparse score counts from 0, which means that no word is shared.

The weights are few and round on purpose. They were chosen on two halves of conversations and on documents, because
other people's memories have other shapes (docs/decisions/0022).
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter

from pentad.shared.immutable import immutable
from pentad.shared.recall.indexed_segments import SegmentFacts
from pentad.shared.recall.questions import ReadQuestion

_HASHING_PREFIX = "simple-"
"""What the names of embeddings begin with that compare letters, not meanings."""


@immutable
class PartWeights:
    """A weight for each part; a part is 0 to 1."""

    text: float
    """Likeness of meaning."""
    around: float
    """The same with the segments beside it."""
    words: float
    """BM25."""
    around_words: float
    task: float
    """BM25 of the whole task it comes from."""
    answers: float
    """It follows a question that is like this one."""
    speaker: float = 0.5
    """Somebody said it whom the question names."""
    by_user: float = 0.1
    """The user said it, and the question is in the first person."""
    when: float = 0.3
    """It says a time, and the question asks for one."""
    asks: float = -0.2
    """It is a question itself."""
    graph: float = 0.7
    """It shares a rare name with one of the best hits."""
    recency: float = 0.05
    importance: float = 0.03
    found_each: int = 200
    """How many hits each search is asked for."""


MEANING_WEIGHTS = PartWeights(text=0.5, around=0.2, words=0.2, around_words=0.3, task=0.3, answers=0.2)
LETTERS_WEIGHTS = PartWeights(text=0.1, around=0.0, words=0.4, around_words=0.3, task=0.3, answers=0.3, found_each=100)
"""For the embedding without a model: words find, and its vectors forgive another spelling."""
WORDS_WEIGHTS = replace(LETTERS_WEIGHTS, text=0.0)
"""The same without its vectors, whose search takes as long as two of words."""


def weights_for(model: str, hurried: bool = False) -> PartWeights:
    """The weights for vectors of this embedding model. ``hurried``: what takes long and counts little is left out."""
    if not model.startswith(_HASHING_PREFIX):
        return MEANING_WEIGHTS
    return WORDS_WEIGHTS if hurried else LETTERS_WEIGHTS


_SCORE, _ID = attrgetter("score"), attrgetter("id")
_HALF_LIFE_MS = 30 * 86_400_000
"""After so long, having been said lately counts half."""

Scores = Mapping[str, float]
"""What a search found: scores by id, as the store gives them."""


@immutable
class FoundSegments:
    """What the searches found."""

    text: Scores
    """Dense: the cosine with the question's vector."""
    around: Scores
    words: Scores
    """Sparse: BM25."""
    around_words: Scores
    tasks: Scores
    """Sparse, of the points that stand for tasks: by the task's id."""
    graph: Scores = field(default_factory=dict)
    """0 to 1: how strongly each segment is connected to the best hits, see `name_paths`."""

    def with_graph(self, graph: Scores) -> "FoundSegments":
        """The same, and what the best hits led to."""
        return FoundSegments(self.text, self.around, self.words, self.around_words, self.tasks, graph)


@immutable
class RankedSegment:
    """A segment with its score and what that is made of."""

    id: str
    score: float
    """0 to 1: its parts together, as a share of the most there could be."""
    parts: Mapping[str, float]
    """Each part with its weight, by the names of `PartWeights`; what was not found and does not apply is absent."""
    also: tuple[str, ...] = ()
    """Anchors of other places where the same owner says the same words."""


def fused(
    question: ReadQuestion,
    found: FoundSegments,
    facts: Mapping[str, SegmentFacts],
    weights: PartWeights,
    now_ms: int,
    before: Sequence[RankedSegment] = (),
) -> list[RankedSegment]:
    """The segments that were found, the best first. ``facts``: of each; what has none is left out.

    ``now_ms``: what recency counts from, in ms since the epoch. ``before``: the same found without the graph: what the
    graph does not lead to is taken from there.
    """
    ranked = [each for each in before if each.id not in found.graph and each.id in facts]
    text, words, tasks = _from_least(found.text), _from_zero(found.words), _from_zero(found.tasks)
    searched = (
        ("text", weights.text, text),
        ("around", weights.around, _from_least(found.around)),
        ("words", weights.words, words),
        ("around_words", weights.around_words, _from_zero(found.around_words)),
        ("graph", weights.graph, found.graph),
    )
    done, found_parts = {each.id for each in ranked}, dict[str, dict[str, float]]()
    for part, weight, scores in searched:
        for name, score in scores.items():
            if name not in done:
                found_parts.setdefault(name, {})[part] = weight * score
    most = most_of(question, weights)
    for name, parts in found_parts.items():
        known = facts.get(name)
        if known is None:
            continue
        if known.task in tasks:
            parts["task"] = weights.task * tasks[known.task]
        if known.asked_before is not None:
            like = (text.get(known.asked_before, 0.0) + words.get(known.asked_before, 0.0)) / 2
            parts["answers"] = weights.answers * like
        _add_known(parts, known, question, weights, now_ms)
        ranked.append(RankedSegment(name, min(1.0, max(0.0, sum(parts.values()) / most)), parts))
    ranked.sort(key=_ID)
    ranked.sort(key=_SCORE, reverse=True)
    return ranked


def _add_known(
    parts: dict[str, float], facts: SegmentFacts, question: ReadQuestion, weights: PartWeights, now_ms: int
) -> None:
    """The parts that no search has to find."""
    if facts.speaker in question.speakers:
        parts["speaker"] = weights.speaker
    if facts.by_user and question.of_user:
        parts["by_user"] = weights.by_user
    if facts.dated and question.when:
        parts["when"] = weights.when
    if facts.asks:
        parts["asks"] = weights.asks
    if facts.importance:
        parts["importance"] = weights.importance * facts.importance
    if facts.at_ms:
        parts["recency"] = weights.recency * 0.5 ** (max(0, now_ms - facts.at_ms) / _HALF_LIFE_MS)


def most_of(question: ReadQuestion, weights: PartWeights) -> float:
    """The most that all parts of this question can be together."""
    said = weights.text + weights.around + weights.words + weights.around_words + weights.task + weights.answers
    known = weights.graph + weights.importance + weights.recency
    asked = weights.speaker * bool(question.speakers) + weights.by_user * question.of_user
    return said + known + asked + weights.when * question.when


def _from_least(scores: Scores) -> Scores:
    least, largest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if largest <= least:
        return dict.fromkeys(scores, 1.0)
    return {name: (score - least) / (largest - least) for name, score in scores.items()}


def _from_zero(scores: Scores) -> Scores:
    largest = max(scores.values(), default=0.0)
    return {name: max(0.0, score) / largest for name, score in scores.items()} if largest > 0 else {}
