"""The wording of a text as evidence: whether it asks something, names a time, and how much it matters. Pure.

These are rules for English and Chinese, used where no model has judged. The figures are few and round: what people say
about themselves, or want remembered, outweighs what a model answers; questions and small talk come last.
"""

import re
from collections.abc import Mapping, Sequence

from pentad.contracts.records import SegmentType
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.segments.segment import Segment

MOST_CHARS = 1_000
"""Characters at the beginning and at the end of a text that are searched."""
_ASKS = re.compile(r"[?？]|[吗呢][。！]?\s*$")
_ENDS_ASKING = re.compile(r"(?:[?？]|[吗呢][。！]?)[\s\"'”’]*$")
_TIME = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|recently|weekend|(?:last|next|this|past|coming|few|couple of) "
    r"(?:night|day|week|month|year|summer|winter|spring|fall|autumn)s?|(?:mon|tues|wednes|thurs|fri|satur|sun)day|"
    r"january|february|march|april|june|july|august|september|october|november|december|weeks?|months?|years?|days?|"
    r"(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)|\d{1,2}:\d\d)\b"
    r"|[0-9一二三四五六七八九十两几]{1,6}[点号日月年天周]|[今明后昨前][天年晚早]|[上下这]个?(?:周|月|星期|礼拜|周末)|去年|星期|周末"
    r"|早上|上午|中午|下午|晚上|刚刚|最近|以前|之前|小时前|分钟前"
)
_WHEN = re.compile(
    r"\b(?:when|(?:what|which) (?:date|day|month|year|time|week)|how long|how (?:often|recently))\b"
    r"|什么时[间候]|几[点号月时]|哪[一]?[天年月]|多久|多长时间|何时"
)


def asks(text: str) -> bool:
    """Whether a text contains a question."""
    return _ASKS.search(_searched_part(text)) is not None


def ends_asking(text: str) -> bool:
    """Whether a text ends with a question."""
    return _ENDS_ASKING.search(text[-MOST_CHARS:]) is not None


def names_time(text: str) -> bool:
    """Whether a text says when something happens."""
    return _TIME.search(_searched_part(text)) is not None


MOST_ASKING_CHARS = 160
"""Characters of a text that does nothing but ask; a longer one that ends with a question says something besides."""


def only_asks(text: str) -> bool:
    """Whether a text is a question and nothing else."""
    return len(text) <= MOST_ASKING_CHARS and ends_asking(text)


_STANDING_WISH = re.compile(
    r"(?:^|[.!?;:,\n]\s{0,8}|\b(?:please|and|but|should|must|to)\s{1,8})(?:always|never)\b"
    r"|\b(?:from now on|my preference|keep in mind|(?:do not|don't|never) forget|remember (?:that|to))\b"
    r"|\bi(?:'d| would)? (?:much |really |always |usually )?prefer\b"
    r"|(?:总是|始终|务必|一律|每次都|永远不要|千万别|千万不要)|以后[都请]|我(?:更|比较|最)喜欢|我偏好|我宁愿"
)
_ANSWERED = re.compile(
    r"\bdid you\b|\b(?:have|had) you (?:said|told|recommended|suggested|advised|explained|given|listed|mentioned|"
    r"proposed|described|shown|written)\b|\byou(?: have|'ve| had|'d)? (?:said|told|recommended|suggested|advised|"
    r"explained|gave|given|listed|mentioned|proposed|described|offered|provided|showed|shown|wrote|written)\b"
    r"|你(?:之前|上次|刚才|刚刚|当时|曾)|你(?:说|讲|推荐|建议|告诉|提到|列|写|解释)[过了的]"
)


def has_standing_wish(text: str) -> bool:
    """Whether a text says what its speaker always wants, or prefers."""
    return _STANDING_WISH.search(_searched_part(text).replace("’", "'")) is not None


def asks_what_was_answered(text: str) -> bool:
    """Whether a question is about something that the assistant has said."""
    return _ANSWERED.search(_searched_part(text).replace("’", "'")) is not None


def asks_when(text: str) -> bool:
    """Whether a text asks when something happens."""
    return _WHEN.search(_searched_part(text)) is not None


def _searched_part(text: str) -> str:
    return (text if len(text) <= 2 * MOST_CHARS else f"{text[:MOST_CHARS]}\n{text[-MOST_CHARS:]}").casefold()


BASE_IMPORTANCE: Mapping[SegmentType, float] = {
    SegmentType.USER_MESSAGE: 0.4,
    SegmentType.RESPONSE: 0.3,
    SegmentType.TOOL_RESULT: 0.3,
    SegmentType.REASONING: 0.2,
    SegmentType.TOOL_CALL: 0.1,
}
WISHED, OF_ONESELF, NAMED, EXACT, ASKED, IDLE = 0.5, 0.2, 0.1, 0.1, -0.2, -0.2
"""Bonuses of a text that asks to be remembered, is in the first person, has a name, has a time or number; penalties of
a question and of a text with few words."""
MIN_IMPORTANCE = 0.05
"""Importance of the least important segment; 0 is reserved for points without an importance."""
_MIN_TERMS = 2
"""A text with fewer content words says little."""
_MOST_CHARS = 1_000
_WISHES = re.compile(
    r"\b(?:remember|(?:do not|don't|never) forget|keep in mind|note (?:that|down))\b|记住|記住|别忘|別忘|不要忘"
)
_OF_ONESELF = re.compile(r"\b(?:i|i'm|i've|my|mine|we|we're|our|ours)\b|我|咱")


def importance_of(segment: Segment, names: NamesInText, terms: Sequence[int], *, dated: bool) -> float:
    """Return the importance of a segment, `MIN_IMPORTANCE` to 1.

    ``names`` and ``terms`` are those of its text; ``dated`` says whether the text names a time, see `names_time`.
    """
    text = segment.text[:_MOST_CHARS].casefold().replace("’", "'")
    found = BASE_IMPORTANCE[segment.anchor.type]
    if segment.anchor.type is SegmentType.USER_MESSAGE:
        found += WISHED * bool(_WISHES.search(text)) + OF_ONESELF * bool(_OF_ONESELF.search(text))
    found += NAMED * bool(names.sure) + EXACT * (dated or any(map(str.isdigit, text)))
    found += ASKED * ends_asking(segment.text) + IDLE * (len(terms) < _MIN_TERMS)
    return round(min(1.0, max(MIN_IMPORTANCE, found)), 2)
