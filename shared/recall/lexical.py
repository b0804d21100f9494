"""BM25 in two halves: a segment keeps the part of each term, the store adds how rare the term is.

The store's part is ``ln(1 + (N - n + 0.5) / (n + 0.5))``, with N points of which n have the term. The mean length is
fixed, since that of a growing memory is not known when a segment is written.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

MOST_TERMS = 2_048
"""Different terms of one point; the most frequent are kept."""
MEAN_WORDS, MEAN_AROUND, MEAN_TASK = 30, 90, 300
"""How many terms a segment, one with its neighbours, and a task are taken to have on average."""
_K1 = 1.2
_B = 0.5
"""How much a long text is marked down; less than for documents, because segments are of like length."""

SparseTerms = dict[int, float]
"""A sparse vector: terms as 32-bit numbers, with their weights."""


def written_terms(terms: Sequence[int], mean: int) -> SparseTerms:
    """What is kept of a text. ``mean``: the length of such texts, in terms."""
    saturation = _K1 * (1 - _B + _B * len(terms) / mean)
    counted = Counter(terms).most_common(MOST_TERMS)
    return {term: count * (_K1 + 1) / (count + saturation) for term, count in counted}


def asked_terms(terms: Iterable[int]) -> SparseTerms:
    """What is asked for: each term counts once."""
    return dict.fromkeys(terms, 1.0)
