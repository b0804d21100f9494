"""Decides which memories are about a question: a search always has a best hit, whatever it is asked.

A question about something unknown finds memories that share its common words. So each word counts by how rare it is
among the memories that were found, and words that are common in the language count little. One of the best memories
must contain enough of the question's words; then those with a comparable score are about it.
"""

from collections.abc import Sequence
from math import log

from pentad.shared.digests.wording import clean, words_of
from pentad.shared.recall.terms import question_terms, terms_of

_MAX_ASKED = 10
"""Number of the best memories of which one must contain enough of the question's words."""
_MIN_WORD_SHARE = 0.25
"""Share of the question's weighted words that one of the best memories must contain."""
_MIN_ASSUMED_MEMORIES = 20
"""Number of memories that is assumed at least: among fewer, a word that two of three have is not common yet."""
_MIN_SCORE_SHARE = 0.5
"""Share of the best score that a memory needs."""


def has_subject(text: str) -> bool:
    """Whether a text names anything that a memory could be about: a greeting, thanks or "go on" does not."""
    return bool(words_of(clean(text)))


def about(question: str, texts: Sequence[str], scores: Sequence[float]) -> list[int]:
    """Return the positions of the memories that are about the question, in their order.

    ``texts`` and ``scores`` are those of the memories that were found, the best first.
    """
    weights = question_terms(question)
    said = [weights.keys() & terms_of(text) for text in texts]
    number = max(len(said), _MIN_ASSUMED_MEMORIES)
    rare = {term: each * _rarity(sum(term in words for words in said), number) for term, each in weights.items()}
    enough = _MIN_WORD_SHARE * sum(rare.values())
    if not enough or max((sum(map(rare.__getitem__, words)) for words in said[:_MAX_ASKED]), default=0.0) < enough:
        return []
    least = _MIN_SCORE_SHARE * scores[0]
    return [place for place, score in enumerate(scores) if score >= least]


def _rarity(having: int, number: int) -> float:
    """Return the weight that BM25 gives to a word which ``having`` of ``number`` texts contain."""
    return log(1 + (number - having + 0.5) / (having + 0.5))
