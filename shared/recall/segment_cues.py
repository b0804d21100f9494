"""What recall knows of the shape of a text, in English and Chinese: it asks, it names a time, it asks for one."""

import re

MOST_CHARS = 1_000
"""Of a text, the first and last are looked at."""
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
    """Whether there is a question in it."""
    return _ASKS.search(_seen(text)) is not None


def ends_asking(text: str) -> bool:
    """Whether a question is the last that it says."""
    return _ENDS_ASKING.search(text[-MOST_CHARS:]) is not None


def names_time(text: str) -> bool:
    """Whether it says when something happens."""
    return _TIME.search(_seen(text)) is not None


def asks_when(text: str) -> bool:
    """Whether it asks when something happens."""
    return _WHEN.search(_seen(text)) is not None


def _seen(text: str) -> str:
    return (text if len(text) <= 2 * MOST_CHARS else f"{text[:MOST_CHARS]}\n{text[-MOST_CHARS:]}").casefold()
