"""Finds by rules what a user message asks for: sums, the time, an echo, a tool by its name. Pure work on text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MAX_READ_CHARS = 2000
"""Characters of a message that the rules read: they look back and forth, so their text is bounded."""
_MAX_NORMALISED_CHARS = 4096
"""Characters of a message that are normalised; one may become eighteen."""

Wish = tuple[str, dict[str, Any]]
"""The name of a tool and the arguments for it."""

_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"
_OPERATOR = r"(?:\*\*|//|[-+*/%^])"
_BEFORE, _BEHIND = r"[-+(\s]{0,32}", r"[\s)]{0,32}"
"""Signs and blanks around a number. They are bounded, or each sign of a long run would begin another search of the
run."""
_OPERAND = rf"{_BEFORE}{_NUMBER}{_BEHIND}"
_SUM = re.compile(rf"(?<![A-Za-z\d_.]){_BEFORE}{_NUMBER}{_BEHIND}(?:{_OPERATOR}{_OPERAND})+(?![A-Za-z0-9_])")
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}:\d{2}(?::\d{2})?")
_CONTINUED = re.compile(
    rf"^\W{{0,20}}(?:and|then|now|so|再|然后|那|那么|结果)?\W{{0,20}}(?:(?:it|that|this)\s*)?({_OPERATOR}\s*{_NUMBER})"
)
_WORDS = (
    (r"\s*(?:divided\s+by|divide\s+(?:it\s+|that\s+)?by|除以)\s*", "/"),
    (r"\s*(?:multiplied\s+by|multiply\s+(?:it\s+|that\s+)?by|times|乘以|乘)\s*", "*"),
    (r"\s*(?:plus|add|加上|加)\s*(?=[\d(.])", "+"),
    (r"\s*(?:minus|subtract|减去|减)\s*(?=[\d(.])", "-"),
    (r"(?<=[\d)])\s*[x×·]\s*(?=[\d(])", "*"),
)
_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "∗": "*", "·": "*"})
_STOPS = str.maketrans({"。": ". ", "，": ", ", "、": ", ", "；": "; "})
"""Full-width punctuation ends a clause, and never stands in a number."""
_FULL_WIDTH_THOUSANDS = re.compile(r"(?<![-+*/^%×÷.\d])(\d{1,3})，(?=\d{3}(?!\d))")
_ECHO = re.compile(r"^\W*(?:please\s+|请)?(echo|ｅｃｈｏ|回显|复述)(?!\w)[\s:：]*(.+)$", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(
    r"what(?:'s| is)? (?:the )?(?:current )?(?:time|date)|current time|time (?:is it|now)|today's date|"
    r"几点|什么时间|现在的?时间|当前时间|今天.{0,3}(?:几号|日期)",
    re.IGNORECASE,
)
_TIME_IN = re.compile(
    r"^\W*(?:(?:what's|tell me|show me|give me) )?(?:the )?(?:current |local )?time (?:in|at) ", re.IGNORECASE
)
"""The time of a place: a message that begins so asks for nothing else."""
_TIME_OF = re.compile(r"的?时间\W*$")
"""The time of a place that stands before it: "东京时间"."""
_IN_PLACE = re.compile(
    r"\b(?:in|at) (?:the )?([^\W\d][\w.' -]{1,40}?)"
    r"(?= now\b| right now\b| today\b| please\b|\s*(?:[^\w\s.'-]|\.\W|\.?$))"
)
_IANA = re.compile(
    r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific)(?:/[\w+-]{1,40}){1,2}",
    re.IGNORECASE,
)
_OFFSET = re.compile(r"\b(?:UTC|GMT)\s?[+-]\s?\d{1,2}(?::?\d{2})?(?!\d)", re.IGNORECASE)
_FOLLOW_UP = re.compile(
    r"^\W*(?:and|what about|how about|and in|那么?|还有)\s*(?:in |for |at )?(.+?)(?:呢)?\W*$|^\W*(.+?)呢\W*$",
    re.IGNORECASE | re.DOTALL,
)
_PLACES: Mapping[str, str] = {
    "beijing": "Asia/Shanghai", "北京": "Asia/Shanghai", "shanghai": "Asia/Shanghai", "上海": "Asia/Shanghai",
    "hong kong": "Asia/Hong_Kong", "香港": "Asia/Hong_Kong", "tokyo": "Asia/Tokyo", "东京": "Asia/Tokyo",
    "singapore": "Asia/Singapore", "新加坡": "Asia/Singapore", "delhi": "Asia/Kolkata", "mumbai": "Asia/Kolkata",
    "sydney": "Australia/Sydney", "悉尼": "Australia/Sydney", "moscow": "Europe/Moscow", "莫斯科": "Europe/Moscow",
    "berlin": "Europe/Berlin", "柏林": "Europe/Berlin", "paris": "Europe/Paris", "巴黎": "Europe/Paris",
    "london": "Europe/London", "伦敦": "Europe/London", "new york": "America/New_York", "纽约": "America/New_York",
    "chicago": "America/Chicago", "los angeles": "America/Los_Angeles", "洛杉矶": "America/Los_Angeles",
    "san francisco": "America/Los_Angeles", "utc": "UTC", "gmt": "UTC",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Before:
    """The part of earlier turns on which a follow-up rests: the last call, and the last number that came out."""

    call: Wish | None = None
    number: str | None = None


def wishes(text: str, tools: Mapping[str, Mapping[str, Any]], before: Before) -> list[Wish]:
    """Return the tool calls that a message asks for, only of `tools` (name to JSON schema of its arguments)."""
    if echo := _echo(text):
        return [wish for wish in echo if wish[0] in tools]
    plain = _plain(text)
    found = _sums(plain, before) + _times(plain) or _by_name(plain, tools) or _follow_up(plain, before)
    return [wish for wish in found if wish[0] in tools]


def stands_alone(text: str) -> bool:
    """Whether a message says by itself all that a sum, a time or an echo needs, whatever was said before."""
    plain = _plain(text)
    return bool(_echo(text) or _sums(plain, Before()) or _times(plain))


def _plain(text: str) -> str:
    """Return what the rules read of a message: of any width of characters one form, and signs that a sum has."""
    head = _FULL_WIDTH_THOUSANDS.sub(r"\1,", text[:_MAX_NORMALISED_CHARS]).translate(_STOPS)
    return unicodedata.normalize("NFKC", head).translate(_SIGNS).strip()[:_MAX_READ_CHARS]


def _echo(text: str) -> list[Wish]:
    match = _ECHO.match(text)
    return [("echo", {"text": match[2].strip()})] if match else []


def _sums(text: str, before: Before) -> list[Wish]:
    text = _as_signs(" ".join(_DATE.sub(" ", text).split()))
    continued = _CONTINUED.match(text)
    if continued and before.number is not None:
        left = before.number if not before.number.startswith("-") else f"({before.number})"
        return [_sum(left + continued[1])]
    return [_sum(match[0]) for match in _SUM.finditer(text)]


def _as_signs(text: str) -> str:
    for words, sign in _WORDS:
        text = re.sub(words, sign, text, flags=re.IGNORECASE)
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


def _sum(expression: str) -> Wish:
    return "calculator", {"expression": _balanced(" ".join(expression.split())).replace("^", "**")}


def _balanced(expression: str) -> str:
    """Return the expression without the brackets that belong to the sentence around it."""
    while expression.startswith("(") and expression.count("(") > expression.count(")"):
        expression = expression[1:].lstrip()
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    return expression


def _times(text: str) -> list[Wish]:
    if _TIME.search(text) or _TIME_IN.search(text):
        return _clocks(text) or [("get_time", {})]
    return _clocks(text) if _TIME_OF.search(text) else []


def _clocks(text: str) -> list[Wish]:
    """Return a call for each zone that the text names; a place that is not known goes to the tool as it is written."""
    lower = text.lower()
    zones = [match[0].replace(" ", "") for pattern in (_IANA, _OFFSET) for match in pattern.finditer(text)]
    if not zones:
        zones = [
            _PLACES[place] for place in sorted(filter(lambda name: _mentions(lower, name), _PLACES), key=lower.index)
        ]
    if not zones:
        zones = [match[1].strip() for match in _IN_PLACE.finditer(text)][:1]
    return [("get_time", {"timezone": zone}) for zone in dict.fromkeys(zones)]


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None if name.isascii() else name in text


def _by_name(text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[Wish]:
    """Return the call of a tool that the message names, when its arguments are none, or one text behind the name."""
    lower = text.lower()
    for name, schema in tools.items():
        spoken = re.search(rf"\b{re.escape(name.lower()).replace('_', '[_ ]')}\b", lower)
        if spoken is None:
            continue
        required = schema.get("required") or ()
        if not required:
            return [(name, {})]
        rest = re.sub(r"^[\s:]*(?:in|of|for|at|about)?\s+", "", text[spoken.end() :]).strip(" \t\n?!.:'\"")
        if len(required) == 1 and rest:
            return [(name, {required[0]: _typed(rest, schema, required[0])})]
    return []


def _typed(value: str, schema: Mapping[str, Any], name: str) -> Any:
    kind = ((schema.get("properties") or {}).get(name) or {}).get("type")
    number = re.search(r"-?\d+(?:\.\d+)?", value) if kind in ("integer", "number") else None
    if number is None:
        return value
    return int(float(number[0])) if kind == "integer" else float(number[0])


def _follow_up(text: str, before: Before) -> list[Wish]:
    match = _FOLLOW_UP.match(text) if before.call is not None and len(text) <= 80 else None
    if match is None or before.call is None:
        return []
    name, args = before.call
    subject = (match[1] or match[2]).strip()
    if name == "get_time":
        return _clocks(subject)
    texts = [key for key, value in args.items() if isinstance(value, str)]
    return [(name, {**args, texts[0]: subject})] if texts and name != "calculator" else []


def plain_number(text: str) -> str | None:
    """Return the text as a number without a needless `.0`; None when it is no number."""
    text = text.strip()
    if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text):
        return None
    return text[:-2] if text.endswith(".0") else text


def first_lines(texts: Sequence[str], limit: int) -> str:
    """Return the texts one below the other, each cut to `limit` characters."""
    return "\n".join(text if len(text) <= limit else text[:limit] + "…" for text in texts)
