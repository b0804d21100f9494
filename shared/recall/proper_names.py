"""Proper names in a text: they lead from one memory to another about the same person, place or work.

English names are recognised by their capital letters, Chinese ones where they are marked: 《红楼梦》. No model is
asked. A name that is missed here is not followed, and neither is one that is not rare (see `name_paths`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from pentad.shared.digests.wording import WIDE
from pentad.shared.immutable import immutable

MOST_NAMES = 32
"""Number of names of one text that are kept, the first."""
_MAX_NAME_CHARS = 64
"""Characters of a name that count."""
_MOST_CHARS = 4_096
_PIECE = re.compile(
    rf"[《「『](?P<marked>[^《》「」『』\n]{{2,{_MAX_NAME_CHARS}}})[》」』]"
    rf"|(?P<word>[^\W_{WIDE}](?:[^\W_{WIDE}]|[&'’-](?=[^\W_{WIDE}]))*)(?P<end>[.!?:])?|(?P<gap>[^\w\s]|\n)"
)
_POSSESSIVE = re.compile(r"['’]s$")
_NO_NAMES = frozenset(
    """
    a absolutely after all also although an and are as at awesome be because been before being but by can congrats cool
    could did do does don't during each either every exactly few first for from glad good great had has have he hello
    her here hey hi him his how however i i'd i'll i'm i've if in into is it it's its just last later like many may
    maybe me more most much my neither new no not now of oh ok okay on once one only or other our please really same
    she should since so some sometimes soon still sure than thank thanks that that's the their them then there these
    they they're this those though thus to too under until up upon us very was we we're well were what when where
    whether which while who whom whose why will with would wow yeah yes yet you you're your
    """.split()
)
"""Words that begin sentences and are not names."""


@immutable
class NamesInText:
    """The names in a text, case-folded, each once, in order."""

    sure: tuple[str, ...]
    perhaps: tuple[str, ...]
    """Words that may be capitalised only because they begin a sentence: they are found by, but not followed."""


def names_of(text: str) -> NamesInText:
    """Return the names in a text, at most `MOST_NAMES`."""
    found: Counter[str] = Counter()
    opening: set[str] = set()
    for name, opens_sentence in _runs(unicodedata.normalize("NFKC", text[:_MOST_CHARS])):
        folded = name.casefold()[:_MAX_NAME_CHARS]
        found[folded] += 1
        if opens_sentence and " " not in folded:
            opening.add(folded)
    names = list(found)[:MOST_NAMES]
    perhaps = tuple(name for name in names if name in opening and found[name] == 1)
    return NamesInText(tuple(name for name in names if name not in perhaps), perhaps)


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield capitalised words that stand together, and whether they begin a sentence."""
    run: list[str] = []
    opens, begins = True, True
    for piece in _PIECE.finditer(text):
        word = piece["word"]
        named = word is not None and word[0].isupper() and word.casefold() not in _NO_NAMES
        if named:
            opens = begins if not run else opens
            run.append(_POSSESSIVE.sub("", word))
        if run and (not named or piece["end"] or run[-1] != word):
            yield " ".join(run), opens
            run = []
        if piece["marked"]:
            yield piece["marked"], False
        begins = (piece["gap"] or piece["end"] or "x") in '.!?:;\n"“'
    if run:
        yield " ".join(run), opens
