"""Moves a newer statement of the same thing directly before the older one. Pure.

Recency counts little in a score, and nothing between statements made seconds apart. So statements that are found about
equally well are compared: those that differ only in a part of their words are taken for statements of one thing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pentad.shared.immutable import immutable
from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.recall.segment_features import SegmentFacts
from pentad.shared.recall.terms import terms_of

T = TypeVar("T")

_WORD = re.compile(r"\w+")
_MAX_COMPARED = 40
"""Number of the best hits that are compared."""
_MIN_SCORE_SHARE = 0.85
"""Share of the older statement's score that a newer one needs; with less it is about something else."""
_MIN_SHARED_TERMS = 0.5
"""Share of the shorter statement's content words that two statements of one thing have in common."""
_MIN_SHARED_WORDS = 0.6
"""Share of all words that is enough where one content word is shared: "the meeting is on Tuesday at nine", "on
Wednesday at ten"."""
_MAX_LENGTH_RATIO = 2.5
"""How many times longer a statement of the same thing may be; a longer one says something else besides."""
_MOST_CHARS = 400
"""Characters of a statement; a longer text says more than one thing."""


@immutable
class _Statement:
    words: frozenset[int]
    """Content words."""
    every_word: frozenset[str]
    at_ms: int
    by_user: bool


def newer_first(
    ranked: Sequence[RankedSegment], facts: Mapping[str, SegmentFacts], texts: Mapping[str, str], most: float
) -> list[RankedSegment]:
    """Return the ranking with a newer statement directly before the older one of the same thing, and with its score.

    ``facts`` and ``texts`` are by id. ``most`` is the sum of parts that makes a score of 1.
    """
    order = list(ranked)
    near = order[:_MAX_COMPARED]
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
    return near + order[_MAX_COMPARED:]


def _statement(facts: SegmentFacts, text: str) -> _Statement | None:
    """Return the statement that a text makes; None for a question, a long text, and one without a time."""
    if facts.asks or not facts.at_ms or len(text) > _MOST_CHARS:
        return None
    return _Statement(frozenset(terms_of(text)), frozenset(_WORD.findall(text.casefold())), facts.at_ms, facts.by_user)


def _replaces(newer: RankedSegment, older: RankedSegment, known: Mapping[str, _Statement | None]) -> bool:
    new, old = known.get(newer.id), known.get(older.id)
    if new is None or old is None or new.at_ms <= old.at_ms or newer.score < _MIN_SCORE_SHARE * older.score:
        return False
    if old.by_user and not new.by_user:  # an answer repeats what it was told, perhaps before the newer statement
        return False
    if new.words == old.words or not new.words & old.words:
        return False
    sizes = sorted((len(new.words), len(old.words)))
    if sizes[1] > _MAX_LENGTH_RATIO * sizes[0]:
        return False
    return (
        _share(new.words, old.words) >= _MIN_SHARED_TERMS or _share(new.every_word, old.every_word) >= _MIN_SHARED_WORDS
    )


def _share(words: frozenset[T], others: frozenset[T]) -> float:
    return len(words & others) / min(len(words), len(others))


def _at_ms(statement: _Statement | None) -> int:
    return statement.at_ms if statement is not None else 0


def _raised(each: RankedSegment, score: float, most: float) -> RankedSegment:
    parts = {**each.parts, "newer": (score - each.score) * most}
    return replace(each, score=score, parts=parts) if score > each.score else each
