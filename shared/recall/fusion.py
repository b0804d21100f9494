"""Five searches become one order: each score is brought to 0..1 and weighted, then what is known of a segment is added.

Only what the searches gave back is known: what one of them did not find counts nothing for it. A dense score counts
from the least that its search found, since all texts are somewhat alike; a sparse one from 0, which is no word shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import attrgetter

from pentad.shared.immutable import immutable
from pentad.shared.recall.part_weights import PartWeights
from pentad.shared.recall.questions import ReadQuestion
from pentad.shared.recall.written import SegmentFacts

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
