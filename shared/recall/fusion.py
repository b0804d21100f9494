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
from pentad.shared.recall.questions import ReadQuestion
from pentad.shared.recall.segment_features import SegmentFacts

_HASHING_PREFIX = "simple-"
"""Prefix of the names of embedding models that compare letters, not meanings."""


@immutable
class PartWeights:
    """The weight of each part of a score; a part is 0 to 1."""

    text: float
    """Weight of the likeness of meaning between the question and the text."""
    around: float
    """Weight of the likeness of meaning, the neighbouring segments included."""
    words: float
    """Weight of the words shared with the text, by BM25."""
    around_words: float
    """Weight of the words shared with the segment and its neighbours, by BM25: the mean of its message's segments."""
    task: float
    """Weight of the words shared with the whole task, by BM25."""
    answers: float
    """Weight of following a question that is like this one."""
    speaker: float = 0.5
    """Weight of being said by somebody whom the question names."""
    by_user: float = 0.4
    """Weight of being said by the user, where the question is in the first person."""
    when: float = 0.3
    """Weight of saying a time, where the question asks for one."""
    asks: float = -0.2
    """Weight of doing nothing but ask; negative, since questions answer nothing."""
    wishes: float = 0.2
    """Weight of what a user always wants, or prefers, where the question names nobody: it holds for every request about
    its subject."""
    graph: float = 0.7
    """Weight of sharing a rare name with one of the best hits."""
    recency: float = 0.05
    importance: float = 0.03
    found_each: int = 200
    """Number of hits that each search is asked for."""


MEANING_WEIGHTS = PartWeights(text=0.4, around=0.2, words=0.2, around_words=0.3, task=0.3, answers=0.2)
LETTERS_WEIGHTS = PartWeights(text=0.1, around=0.0, words=0.3, around_words=0.3, task=0.3, answers=0.3, found_each=100)
"""Weights for the embedding without a model: words find, and its vectors forgive misspellings."""
WORDS_WEIGHTS = replace(LETTERS_WEIGHTS, text=0.0)
"""Weights for the embedding without a model when its vectors are not searched, which takes as long as two searches for
words."""


def weights_for(model: str, hurried: bool = False) -> PartWeights:
    """Return the weights for vectors of an embedding model.

    ``hurried`` leaves out a search that takes long and counts little.
    """
    if not model.startswith(_HASHING_PREFIX):
        return MEANING_WEIGHTS
    return WORDS_WEIGHTS if hurried else LETTERS_WEIGHTS


_SCORE, _ID = attrgetter("score"), attrgetter("id")
_HALF_LIFE_MS = 30 * 86_400_000
"""Age at which the weight of recency is halved."""

Scores = Mapping[str, float]
"""Scores of a search by id, as the store gives them."""


@immutable
class FoundSegments:
    """The hits of the searches."""

    text: Scores
    """Cosines with the question's vector."""
    around: Scores
    words: Scores
    """BM25 scores of the words of the text."""
    around_words: Scores
    tasks: Scores
    """BM25 scores of the points that stand for tasks, by task id."""
    graph: Scores = field(default_factory=dict)
    """Strength of each segment's connection to the best hits, 0 to 1; see `name_paths`."""

    def with_graph(self, graph: Scores) -> "FoundSegments":
        """Return these hits with what the names in the best hits led to."""
        return FoundSegments(self.text, self.around, self.words, self.around_words, self.tasks, graph)


@immutable
class RankedSegment:
    """A segment with its score and the parts of the score."""

    id: str
    score: float
    """Sum of the parts as a share of the highest possible sum, 0 to 1."""
    parts: Mapping[str, float]
    """Weighted parts of the score, by the names of `PartWeights`; parts that do not apply are absent."""


def fused(
    question: ReadQuestion,
    found: FoundSegments,
    facts: Mapping[str, SegmentFacts],
    weights: PartWeights,
    now_ms: int,
    before: Sequence[RankedSegment] = (),
) -> list[RankedSegment]:
    """Return the segments that were found, the best first.

    ``facts`` has the facts of each segment; a segment without facts is left out. ``now_ms`` is the time from which
    recency counts, in ms since the epoch. ``before`` is the ranking without the graph: segments that the graph does not
    lead to are taken from there.
    """
    ranked = [each for each in before if each.id not in found.graph and each.id in facts]
    around_words = _of_messages(_scaled_from_zero(found.around_words), found, facts)
    text, words, tasks = _scaled_from_lowest(found.text), _scaled_from_zero(found.words), _scaled_from_zero(found.tasks)
    searched = (
        ("text", weights.text, text),
        ("around", weights.around, _scaled_from_lowest(found.around)),
        ("words", weights.words, words),
        ("around_words", weights.around_words, around_words),
        ("graph", weights.graph, found.graph),
    )
    done, found_parts = {each.id for each in ranked}, dict[str, dict[str, float]]()
    for part, weight, scores in searched:
        for name, score in scores.items():
            if name not in done:
                found_parts.setdefault(name, {})[part] = weight * score
    most = highest_sum(question, weights)
    for name, parts in found_parts.items():
        known = facts.get(name)
        if known is None:
            continue
        if known.task in tasks:
            parts["task"] = weights.task * tasks[known.task]
        if known.asked_before is not None:
            like = (text.get(known.asked_before, 0.0) + words.get(known.asked_before, 0.0)) / 2
            parts["answers"] = weights.answers * like
        _add_fact_parts(parts, known, question, weights, now_ms)
        ranked.append(RankedSegment(name, min(1.0, max(0.0, sum(parts.values()) / most)), parts))
    ranked.sort(key=_ID)
    ranked.sort(key=_SCORE, reverse=True)
    return ranked


def _add_fact_parts(
    parts: dict[str, float], facts: SegmentFacts, question: ReadQuestion, weights: PartWeights, now_ms: int
) -> None:
    """Add the parts of a score that come from facts, not from a search."""
    if facts.speaker in question.speakers:
        parts["speaker"] = weights.speaker
    if facts.by_user and question.of_user:
        parts["by_user"] = weights.by_user
    if facts.dated and question.when:
        parts["when"] = weights.when
    if facts.asks:
        parts["asks"] = weights.asks
    if facts.wishes and not question.speakers:
        parts["wishes"] = weights.wishes
    if facts.importance:
        parts["importance"] = weights.importance * facts.importance
    if facts.at_ms:
        parts["recency"] = weights.recency * 0.5 ** (max(0, now_ms - facts.at_ms) / _HALF_LIFE_MS)


def _of_messages(scores: Scores, found: FoundSegments, facts: Mapping[str, SegmentFacts]) -> Scores:
    """Return for each segment that a search found the mean score of those of its message.

    A long message has many segments, and the best of many is high by chance: a message counts by all that was found of
    it (late aggregation).
    """
    messages: dict[str, list[str]] = {}
    for name in {**found.text, **found.around, **found.words, **found.around_words}:
        if name in facts:
            messages.setdefault(facts[name].message or name, []).append(name)
    means = dict[str, float]()
    for names in messages.values():
        if mean := sum(scores.get(name, 0.0) for name in names) / len(names):
            means |= dict.fromkeys(names, mean)
    return means


_FURTHER_SHARE = 0.5
"""Share of its score that a further segment of a message keeps in `spread_over_messages`."""


def spread_over_messages(
    ranked: Sequence[RankedSegment], facts: Mapping[str, SegmentFacts], most: float
) -> list[RankedSegment]:
    """Return a ranking in which all but the best segment of each message have half of their score.

    So the first hits are of different messages; who wants more of a message opens its anchor. ``most``: see
    `highest_sum`.
    """
    seen: set[str] = set()
    spread: list[RankedSegment] = []
    for each in ranked:
        message = facts[each.id].message if each.id in facts else ""
        if message in seen:
            less = each.score * (1 - _FURTHER_SHARE)
            spread.append(RankedSegment(each.id, each.score - less, {**each.parts, "further": -less * most}))
            continue
        if message:
            seen.add(message)
        spread.append(each)
    spread.sort(key=_SCORE, reverse=True)
    return spread


def highest_sum(question: ReadQuestion, weights: PartWeights) -> float:
    """Return the highest sum that the parts of a score can have for this question."""
    said = weights.text + weights.around + weights.words + weights.around_words + weights.task + weights.answers
    known = weights.graph + weights.importance + weights.recency
    asked = weights.speaker if question.speakers else weights.wishes
    asked += weights.by_user * question.of_user
    return said + known + asked + weights.when * question.when


def _scaled_from_lowest(scores: Scores) -> Scores:
    least, largest = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if largest <= least:
        return dict.fromkeys(scores, 1.0)
    return {name: (score - least) / (largest - least) for name, score in scores.items()}


def _scaled_from_zero(scores: Scores) -> Scores:
    largest = max(scores.values(), default=0.0)
    return {name: max(0.0, score) / largest for name, score in scores.items()} if largest > 0 else {}
