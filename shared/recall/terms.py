"""The words of a text as numbers of 32 bits: what sparse vectors are made of, in a segment and in a question."""

import re
import unicodedata
from functools import lru_cache
from zlib import crc32

from pentad.shared.digests.wording import WIDE

MOST_CHARS = 4_096
"""Of a text, the first are read; a segment with its neighbours is shorter."""
_PIECE = re.compile(rf"([{WIDE}]+)|([^\W_{WIDE}]+)")
_LONGEST = 32
"""Letters of a word that count, so that no text fills the cache with long ones."""
_FUNCTION_WORDS = frozenset(
    """
    a an and are as at be been but by d did do does don for from had has have he her him his how i if in into is it its
    ll m me my of on or our re s she so some t that the their them then there these they this to ve was we were what
    when where which who whom whose why will with would you your
    """.split()
)
"""English words that say nothing of what a text is about."""


def terms_of(text: str) -> list[int]:
    """The words of a text in order, each as often as it occurs, English ones by their stems.

    Chinese and Japanese put no spaces between words: pairs of characters stand for them.
    """
    found: list[int] = []
    folded = unicodedata.normalize("NFKC", text[:MOST_CHARS]).casefold()[:MOST_CHARS]
    for wide, word in _PIECE.findall(folded):
        if wide:
            found.extend(map(_hashed, _pairs(wide)))
        elif word not in _FUNCTION_WORDS:
            found.append(_hashed(_stem(word[:_LONGEST])))
    return found


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
