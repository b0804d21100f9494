"""Follows rare names from the best hits to other segments, so that a question with two hops finds its second.

`names_to_follow` says which names to look up, `connected` how strongly the segments found there are connected. Between
the two calls the caller looks the names up. A name that many segments mention leads everywhere and is not followed.
"""

from collections.abc import Mapping, Sequence
from math import log2

from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.questions import ReadQuestion
from pentad.shared.recall.segment_features import SegmentFacts

MOST_MENTIONS = 20
"""Segments that may mention a name which still counts as rare. Look up one more than these, to know."""
_MAX_SEEDS = 5
"""Number of the best hits whose names are followed."""
_SEED_SCORE_SHARE = 0.6
"""Share of the best score that a hit needs for its names to be followed."""
_NAMES_EACH = 8
"""Number of names of one hit that are followed, the first."""

NamesOfSeeds = Mapping[str, Mapping[str, float]]
"""The hits that mention each name, with their scores as shares of the best score."""


def names_to_follow(
    question: ReadQuestion, ranked: Sequence[RankedSegment], facts: Mapping[str, SegmentFacts]
) -> NamesOfSeeds:
    """Return the names in the best hits that the question does not say itself, at most 40. ``ranked``: best first."""
    following: dict[str, dict[str, float]] = {}
    best = ranked[0].score if ranked else 0.0
    if not best:
        return following
    for seed in ranked[:_MAX_SEEDS]:
        if seed.score >= _SEED_SCORE_SHARE * best:
            for name in _new_names(question, facts[seed.id]):
                following.setdefault(name, {})[seed.id] = seed.score / best
    return following


def connected(following: NamesOfSeeds, mentions: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return how strongly segments are connected to the best hits, 0 to 1: for `FoundSegments.graph`.

    ``mentions`` has for each name the ids of the segments that mention it, surely or perhaps; a rarer name counts more.
    """
    scores: dict[str, float] = {}
    for name, seeds in following.items():
        there = mentions.get(name, ())
        if not 2 <= len(there) <= MOST_MENTIONS:
            continue
        rarity = 1 / log2(len(there))
        for segment in there:
            strongest = max((share for seed, share in seeds.items() if seed != segment), default=0.0)
            scores[segment] = max(scores.get(segment, 0.0), strongest * rarity)
    return scores


def _new_names(question: ReadQuestion, facts: SegmentFacts) -> list[str]:
    speakers = {speaker.casefold() for speaker in (*question.speakers, facts.speaker)}
    new = [name for name in facts.names.sure if name not in speakers and not question.words.issuperset(name.split())]
    return new[:_NAMES_EACH]
