"""The words of a text as numbers: what the sparse vectors of segments and questions are made of. Pure.

BM25 is computed in two halves: a segment keeps the part of each term, and the store adds how rare the term is. The
store's part is ``ln(1 + (N - n + 0.5) / (n + 0.5))``, with N points of which n have the term. The mean length is fixed,
since that of a growing memory is not known when a segment is written.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from zlib import crc32

from pentad.shared.digests.wording import FUNCTION_CHARS, WIDE
from pentad.shared.recall.common_words import COMMON_WEIGHT, COMMON_WORDS

MOST_CHARS = 4_096
"""Characters of a text that are read; a segment with its neighbours is shorter."""
_TOKEN = re.compile(rf"([{WIDE}]+)|([^\W_{WIDE}]+)")
_MAX_WORD_LETTERS = 32
"""Letters of a word that count, so that no text fills the cache with long ones."""
_FUNCTION_WORDS = frozenset(
    """
    a an and are as at be been but by d did do does don for from had has have he her him his how i if in into is it its
    ll m me my of on or our re s she so some t that the their them then there these they this to ve was we were what
    when where which who whom whose why will with would you your
    """.split()
)
"""English words that say nothing about the subject of a text."""


def terms_of(text: str) -> list[int]:
    """Return the terms of a text in order, each as often as it occurs; English words are stemmed.

    Chinese and Japanese put no spaces between words: pairs of characters stand for them.
    """
    return list(map(_hashed, _stems_and_pairs(text)))


def question_terms(text: str) -> "SparseTerms":
    """Return the terms of a question in order, each once, with their weights: words common in the language weigh
    `COMMON_WEIGHT`."""
    return {_hashed(word): COMMON_WEIGHT if _is_common(word) else 1.0 for word in _stems_and_pairs(text)}


def _stems_and_pairs(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text[:MOST_CHARS]).casefold()[:MOST_CHARS]
    for wide, word in _TOKEN.findall(folded):
        if wide:
            yield from _pairs(wide)
        elif word not in _FUNCTION_WORDS:
            yield _stem(word[:_MAX_WORD_LETTERS])


def _is_common(word: str) -> bool:
    """Whether a stem, or a pair of Chinese characters, says little about the subject of a text."""
    return word in _common_stems() or FUNCTION_CHARS.issuperset(word)


@cache
def _common_stems() -> frozenset[str]:
    return frozenset(map(_stem, COMMON_WORDS))


def _pairs(wide: str) -> list[str]:
    return [wide[at : at + 2] for at in range(len(wide) - 1)] or [wide]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    if word.isdigit():
        return word.lstrip("0") or word
    from snowballstemmer.english_stemmer import EnglishStemmer  # its package imports all languages: not at a start

    # A stemmer keeps what it works on, so each call has its own: threads may call.
    stem: str = EnglishStemmer().stemWord(word)
    return stem


@lru_cache(maxsize=65_536)
def _hashed(word: str) -> int:
    return crc32(word.encode("utf-8", "replace"))


MOST_TERMS = 2_048
"""Number of different terms of one point; the most frequent are kept."""
MEAN_WORDS, MEAN_AROUND, MEAN_TASK = 30, 90, 300
"""Assumed mean number of terms of a segment, of a segment with its neighbours, and of a task."""
_K1 = 1.2
_B = 0.5
"""Length normalisation of BM25; less than for documents, because segments have similar lengths."""

SparseTerms = dict[int, float]
"""A sparse vector: the weights of terms, which are 32-bit numbers."""


def indexed_terms(terms: Sequence[int], mean: int) -> SparseTerms:
    """Return the stored half of BM25 for a text. ``mean`` is the mean length of such texts, in terms."""
    saturation = _K1 * (1 - _B + _B * len(terms) / mean)
    counted = Counter(terms).most_common(MOST_TERMS)
    return {term: count * (_K1 + 1) / (count + saturation) for term, count in counted}


def asked_terms(terms: Iterable[int]) -> SparseTerms:
    """Return the sparse vector of a question: each term counts once."""
    return dict.fromkeys(terms, 1.0)


_WORD = re.compile(r"\w+")
_DIGEST_CHARS = 16


def words_digest(text: str) -> str:
    """Return a digest that is equal for the same words in the same order; '' for a text without any.

    Case, punctuation, spaces and character width do not matter. No word is left out: "at nine" and "at ten", "I like
    it" and "I do not like it" have different digests.
    """
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return sha256(" ".join(words).encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS] if words else ""
