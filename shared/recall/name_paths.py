"""One step from the best hits to what speaks of the same rare names: how a question with two hops finds its second.

Two calls, with a look-up between them that the graph store or an index of names answers: `names_to_follow` says which
names to look up, `connected` what the segments found there are worth. A name that many speak of leads everywhere, so it
is not followed.
"""

from collections.abc import Mapping, Sequence
from math import log2

from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.indexed_segments import SegmentFacts
from pentad.shared.recall.questions import ReadQuestion

MOST_MENTIONS = 20
"""A name that more segments mention is not rare. Look up one more than these, to know."""
_SEEDS = 5
"""How many of the best hits are followed."""
_NEAR = 0.6
"""A hit with less than this share of the best one's score is not."""
_NAMES_EACH = 8
"""Names of one hit, the first."""

NamesOfSeeds = Mapping[str, Mapping[str, float]]
"""A name, and the hits that mention it with their scores as shares of the best."""


def names_to_follow(
    question: ReadQuestion, ranked: Sequence[RankedSegment], facts: Mapping[str, SegmentFacts]
) -> NamesOfSeeds:
    """The names in the best hits that the question does not say itself, at most 40. ``ranked``: the best first."""
    following: dict[str, dict[str, float]] = {}
    best = ranked[0].score if ranked else 0.0
    if not best:
        return following
    for seed in ranked[:_SEEDS]:
        if seed.score >= _NEAR * best:
            for name in _new_names(question, facts[seed.id]):
                following.setdefault(name, {})[seed.id] = seed.score / best
    return following


def connected(following: NamesOfSeeds, mentions: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """How strongly segments are connected to the hits, 0 to 1: for `FoundSegments.graph`.

    ``mentions``: for each name the ids of segments that mention it, surely or perhaps; the rarer, the more it counts.
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
