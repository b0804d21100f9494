"""Which of the memories that were found are about a question: a search has always a best one, whatever it is asked.

A question that says nothing of what is known finds memories that share its common words, so its words count by how rare
they are among what was found. One of the best has to say enough of them; then those that compare with it are about it.
"""

from collections.abc import Sequence
from math import log

from pentad.shared.digests.wording import clean, words_of
from pentad.shared.recall.terms import terms_of

_BEST = 10
"""How many of the best are asked whether the question is about what is known."""
_ENOUGH = 0.25
"""Share of the question's words, weighed, that one of them has to say."""
_FEW = 20
"""Among fewer memories than these, a word that two of three have is not common yet."""
_COMPARES = 0.5
"""Share of the best score that a memory has to have."""


def has_subject(text: str) -> bool:
    """Whether it names anything that a memory could be about: a greeting, thanks, "go on" do not."""
    return bool(words_of(clean(text)))


def about(question: str, texts: Sequence[str], scores: Sequence[float]) -> list[int]:
    """Places of the memories that are about the question, in their order.

    ``texts``, ``scores``: of the memories that were found, the best first.
    """
    asked = frozenset(terms_of(question))
    said = [asked.intersection(terms_of(text)) for text in texts]
    number = max(len(said), _FEW)
    rare = {term: _rarity(sum(term in words for words in said), number) for term in asked}
    enough = _ENOUGH * sum(rare.values())
    if not enough or max((sum(map(rare.__getitem__, words)) for words in said[:_BEST]), default=0.0) < enough:
        return []
    least = _COMPARES * scores[0]
    return [place for place, score in enumerate(scores) if score >= least]


def _rarity(having: int, number: int) -> float:
    """As BM25 weighs a word that so many have of a number."""
    return log(1 + (number - having + 0.5) / (having + 0.5))
