"""Who says a thing again with another value means the newer one: of two statements of one thing it comes first. Pure.

Recency counts little in a score, and nothing between what was said seconds apart, so statements that are found about
equally well are compared: those that say the same but for a part of their words are taken for statements of one thing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pentad.shared.immutable import immutable
from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.indexed_segments import SegmentFacts
from pentad.shared.recall.terms import terms_of

T = TypeVar("T")

_WORD = re.compile(r"\w+")
_LOOKED_AT = 40
"""The best, of which statements are compared."""
_LEAST_SCORE = 0.85
"""A newer statement has at least this share of the older one's score, else it is about something else."""
_LEAST_SHARED = 0.5
"""Two statements of one thing share at least this part of the shorter one's words that say what it is about."""
_LEAST_ALIKE = 0.6
"""Or one of those, and this part of all its words: "the meeting is on Tuesday at nine", "on Wednesday at ten"."""
_MOST_LONGER = 2.5
"""A statement with so many times the other's words says something else besides."""
_MOST_CHARS = 400
"""A longer text says more than one thing."""


@immutable
class _Statement:
    words: frozenset[int]
    """Those that say what it is about."""
    every_word: frozenset[str]
    at_ms: int
    by_user: bool


def newer_first(
    ranked: Sequence[RankedSegment], facts: Mapping[str, SegmentFacts], texts: Mapping[str, str], most: float
) -> list[RankedSegment]:
    """The order with a newer statement directly before the older one of the same thing, and with its score.

    ``facts`` and ``texts``: by id. ``most``: what a score of 1 is in its parts.
    """
    order = list(ranked)
    near = order[:_LOOKED_AT]
    known = {each.id: _statement(facts[each.id], texts[each.id]) for each in near if each.id in facts}
    place = 0
    while place < len(near):
        older = near[place]
        newest = max(
            (at for at in range(place + 1, len(near)) if _replaces(near[at], older, known)),
            key=lambda at: _at_ms(known[near[at].id]),
            default=None,
        )
        if newest is not None:
            near.insert(place, _raised(near.pop(newest), older.score, most))
        place += 1
    return near + order[_LOOKED_AT:]


def _statement(facts: SegmentFacts, text: str) -> _Statement | None:
    """None of what states nothing that could be stated anew: a question, a long text, one without a time."""
    if facts.asks or not facts.at_ms or len(text) > _MOST_CHARS:
        return None
    return _Statement(frozenset(terms_of(text)), frozenset(_WORD.findall(text.casefold())), facts.at_ms, facts.by_user)


def _replaces(newer: RankedSegment, older: RankedSegment, known: Mapping[str, _Statement | None]) -> bool:
    new, old = known.get(newer.id), known.get(older.id)
    if new is None or old is None or new.at_ms <= old.at_ms or newer.score < _LEAST_SCORE * older.score:
        return False
    if old.by_user and not new.by_user:  # an answer repeats what it was told, perhaps before the newer statement
        return False
    if new.words == old.words or not new.words & old.words:
        return False
    sizes = sorted((len(new.words), len(old.words)))
    if sizes[1] > _MOST_LONGER * sizes[0]:
        return False
    return _share(new.words, old.words) >= _LEAST_SHARED or _share(new.every_word, old.every_word) >= _LEAST_ALIKE


def _share(words: frozenset[T], others: frozenset[T]) -> float:
    return len(words & others) / min(len(words), len(others))


def _at_ms(statement: _Statement | None) -> int:
    return statement.at_ms if statement is not None else 0


def _raised(each: RankedSegment, score: float, most: float) -> RankedSegment:
    parts = {**each.parts, "newer": (score - each.score) * most}
    return replace(each, score=score, parts=parts) if score > each.score else each
