"""How much what was said matters, by how it is said: a rule for where no model has told. English and Chinese. Pure.

The figures are few and round: what a person says of himself, or wants to be remembered, outweighs what a model
answers, and questions and small talk come last.
"""

import re
from collections.abc import Mapping, Sequence

from pentad.contracts.records import SegmentType
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.recall.segment_cues import ends_asking
from pentad.shared.segments.segmenting import Segment

BEGINS_AT: Mapping[SegmentType, float] = {
    SegmentType.USER_MESSAGE: 0.4,
    SegmentType.RESPONSE: 0.3,
    SegmentType.TOOL_RESULT: 0.3,
    SegmentType.REASONING: 0.2,
    SegmentType.TOOL_CALL: 0.1,
}
WISHED, OF_ONESELF, NAMED, EXACT, ASKED, IDLE = 0.5, 0.2, 0.1, 0.1, -0.2, -0.2
"""Somebody wants it remembered; says it of himself; it has a name; a time or number; is a question; says little."""
LEAST = 0.05
"""0 is what says nothing of how much it matters."""
_FEW = 2
"""Words that say something, below which it says little."""
_MOST_CHARS = 1_000
_WISHES = re.compile(
    r"\b(?:remember|(?:do not|don't|never) forget|keep in mind|note (?:that|down))\b|记住|記住|别忘|別忘|不要忘"
)
_OF_ONESELF = re.compile(r"\b(?:i|i'm|i've|my|mine|we|we're|our|ours)\b|我|咱")


def importance_of(segment: Segment, names: NamesInText, terms: Sequence[int], *, dated: bool) -> float:
    """0.05 to 1. ``names``, ``terms``: of its text. ``dated``: whether that names a time, see `names_time`."""
    text = segment.text[:_MOST_CHARS].casefold().replace("’", "'")
    found = BEGINS_AT[segment.anchor.type]
    if segment.anchor.type is SegmentType.USER_MESSAGE:
        found += WISHED * bool(_WISHES.search(text)) + OF_ONESELF * bool(_OF_ONESELF.search(text))
    found += NAMED * bool(names.sure) + EXACT * (dated or any(map(str.isdigit, text)))
    found += ASKED * ends_asking(segment.text) + IDLE * (len(terms) < _FEW)
    return round(min(1.0, max(LEAST, found)), 2)
