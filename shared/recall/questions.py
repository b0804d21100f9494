"""Questions to the memory: their words without the participants' names, whom they ask about, and whether for a time.

A participant's name occurs in all that is said to and by them, so it says little as a word; as a speaker it says much.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from pentad.shared.digests.wording import WIDE
from pentad.shared.immutable import immutable
from pentad.shared.recall.cues import asks_what_was_answered, asks_when
from pentad.shared.recall.terms import SparseTerms, question_terms

MOST_CHARS = 2_000
"""Characters of a question that are read."""
MOST_TERMS = 128
"""Number of different words of a question that count."""
MOST_PARTICIPANTS = 64
_LONGEST_NAME = 64
_ROLES = frozenset({"user", "assistant", "tool", "system"})
"""Names that transcripts give to speakers without a name: in a question they are ordinary words."""
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b|我|咱|俺", re.IGNORECASE)
_LETTER = rf"[^\W_{WIDE}]"


@immutable
class ReadQuestion:
    """A question, parsed for searching."""

    text: str
    """The question without the names of participants; this text is embedded."""
    terms: SparseTerms
    """Terms of the three sparse searches, with their weights."""
    speakers: frozenset[str]
    """Participants that the question names."""
    of_user: bool
    """Whether it is asked in the first person, and not about an answer: then the user's own words count more."""
    when: bool
    """Whether it asks for a time."""
    words: frozenset[str]
    """Words of the question, case-folded: a name among them leads nowhere new."""


def read_question(question: str, participants: Iterable[str] = ()) -> ReadQuestion:
    """Parse a question.

    ``participants`` have spoken in the memories that are searched; at most `MOST_PARTICIPANTS` are looked for, also by
    the first word of their names.
    """
    given = question[:MOST_CHARS]
    named = {alias: speaker for speaker in _named(participants) for alias in _aliases(speaker)}
    pattern = _pattern(tuple(sorted(named, key=lambda alias: (-len(alias), alias))))
    found = {alias.lower() for alias in pattern.findall(given)} if named else set()
    bare = " ".join(pattern.sub(" ", given).split()) if found else given
    terms = question_terms(bare) or question_terms(given)
    return ReadQuestion(
        text=bare if any(map(str.isalnum, bare)) else given,
        terms=dict(islice(terms.items(), MOST_TERMS)),
        # A letter that has no small one of its own length is found, and is still another name.
        speakers=frozenset(named[alias] for alias in found if alias in named),
        of_user=_FIRST_PERSON.search(given) is not None and not asks_what_was_answered(given),
        when=asks_when(given),
        words=frozenset(re.findall(r"\w+", given.casefold())),
    )


def _named(participants: Iterable[str]) -> list[str]:
    known = sorted({each for each in participants if 1 < len(each) <= _LONGEST_NAME and each not in _ROLES})
    return known[:MOST_PARTICIPANTS]


def _aliases(speaker: str) -> set[str]:
    whole = speaker.lower()
    first = whole.split()[0] if whole.split() else whole
    return {whole, first} if len(first) > 1 else {whole}


@lru_cache(maxsize=256)
def _pattern(aliases: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of these names as whole words, with the 's of a possessive."""
    names = "|".join(map(re.escape, aliases))
    return re.compile(rf"(?<!{_LETTER})({names})(?:['’]s)?(?!{_LETTER})", re.IGNORECASE)
