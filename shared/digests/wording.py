"""Which words a text is about, as short hashes: what a small digest of a conversation can keep."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from zlib import crc32

MOST_CHARS = 2_000
"""Characters of a text that are read, from its start: what somebody wants is said early."""
MOST_WORDS = 64
"""Words of one text that are kept."""

WIDE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of Chinese and Japanese, for a class of a regular expression: no spaces stand between their words."""
_PIECE = re.compile(rf"([{WIDE}]+)|([^\W_{WIDE}]+)")
_LENGTH = re.compile(rf"[{WIDE}]|[^\W{WIDE}]+")
_ASCII_WORD, _ASCII_LENGTH = re.compile(r"[^\W_]+", re.ASCII), re.compile(r"\w+", re.ASCII)
"""Words of a text in ASCII, as most messages are: matching them is a quarter of the work."""
_MAX_WORD_CHARS = 32
"""Letters of a word that count, so that no text fills the cache with long ones."""
FUNCTION_WORDS = frozenset(
    """
    a able about actually after again ago all almost already also although always am an and another any anybody
    anyone anything anyway are around as ask at away back be because been before being best better between big bit
    both but by bye call came can cannot case change come could couldn d day dear did didn different do does doesn
    doing don done down each either else enough even ever every everything example few find fine first fix for from
    get getting give go goes going gone gonna good got great had happen has hasn have haven having he hello help her
    here hey hi him his hmm how however i idea if im in instead into is isn it its just keep kind know last later
    least less let like little ll look looking lot lovely m made make makes many may maybe me mean might mind mine
    more most much must my name need needs never new next nice no non none nor normal not nothing now of off ok okay
    old on once one ones only or other others our out over own part perfect perhaps please possible pretty probably
    problem put question quite rather re really reason right s said same say says see seem seems set several shall
    she should show since so some somebody someone something sometimes somewhere soon sorry sort sound sounds still
    stuff such suggest sure t take tell than thank thanks that the their them then there these they thing things
    think this those though through time to today too tried true try trying two u under until up upon us use used
    using usually ve very want wanted was wasn way we well were what whatever when where whether which while who
    whole why will wish with within without won wonderful work works would wouldn wrong yeah yes yet you your yours
    """.split()
)
"""English words that are said whatever the talk is about."""
FUNCTION_CHARS = frozenset(
    "的了吗呢吧啊呀哦嗯哈呗嘛我你您他她它们是在有没不很也都就还要想会能可以这那个些什么怎样哪谁几多少"
    "请帮给把和跟与或对从到被让去来好行谢再见找推荐知道告诉说看下一上里家"
)
"""Chinese characters of which the same holds: a pair with one of them is no word."""


def clean(text: str) -> str:
    """The start of a text in one form of each letter, so that wide, capital and plain letters compare."""
    start = text[:MOST_CHARS]
    if start.isascii():  # the same, without looking at each letter twice
        return start.lower()
    return unicodedata.normalize("NFKC", start).casefold()[:MOST_CHARS]


def length_of(cleaned: str) -> int:
    """How long a text is, in words; of Chinese and Japanese in characters."""
    return len((_ASCII_LENGTH if cleaned.isascii() else _LENGTH).findall(cleaned))


def words_of(cleaned: str) -> tuple[int, ...]:
    """The words that a text is about, each once, as numbers below 65,536; at most `MOST_WORDS`.

    Chinese and Japanese put no spaces between words: pairs of characters stand for them.
    """
    if cleaned.isascii():
        return tuple(dict.fromkeys(_numbers(_ASCII_WORD.findall(cleaned))))[:MOST_WORDS]
    found: dict[int, None] = {}
    for wide, word in _PIECE.findall(cleaned):
        found.update(dict.fromkeys(map(_hashed, _pairs(wide)) if wide else _numbers((word,))))
    return tuple(found)[:MOST_WORDS]


def _numbers(words: Iterable[str]) -> list[int]:
    """Hash the words that say what a talk is about."""
    return [_stem_hashed(w[:_MAX_WORD_CHARS]) for w in words if w not in FUNCTION_WORDS and (w[1:] or w.isdigit())]


def _pairs(wide: str) -> list[str]:
    neighbours = pairwise(wide)
    return [one + two for one, two in neighbours if one not in FUNCTION_CHARS and two not in FUNCTION_CHARS]


@lru_cache(maxsize=16_384)
def _stem_hashed(word: str) -> int:
    """Hash a word without the s of a plural."""
    return _hashed(word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith("ss") else word)


@lru_cache(maxsize=16_384)
def _hashed(word: str) -> int:
    return crc32(word.encode("utf-8", "replace")) & 0xFFFF
