"""Reads how long a server asks to be left alone, and whether a quota is used up, in each provider's form. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from pentad.shared.models.refusal import members

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION_PART = (
    r"\d{1,9}(?:\.\d{1,12})?\s?(?:ms|milli\w{0,10}|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,12})?)\s?([a-z]+)", re.I)
_DURATION = re.compile(rf"{_DURATION_PART}(?:,? ?(?:and )?{_DURATION_PART}){{0,4}}", re.I)
_WAIT_WORDS = r"(?:try again|retry|retrying|retried|wait|resets?|available)"
_STATED_DELAY = re.compile(
    rf"{_WAIT_WORDS}\b[^\d\n]{{0,48}}({_DURATION_PART}(?:,? ?(?:and )?{_DURATION_PART}){{0,4}})", re.I
)
"""A delay within a text. OpenAI, Groq: "Please try again in 6m0s". Azure: "Please retry after 8 seconds". GitHub:
"Please wait 57 seconds"."""
_DELAYS = {
    "retrydelay": 1.0,
    "retry_delay": 1.0,
    "retryafter": 1.0,
    "retry_after": 1.0,
    "retry-after": 1.0,
    "retry_after_seconds": 1.0,
    "retryafterseconds": 1.0,
    "retry_after_ms": 0.001,
    "retryafterms": 0.001,
    "retry-after-ms": 0.001,
    "quotaresetdelay": 1.0,
}
"""Members of an error's body that hold a delay, in lower case, with the unit of their numbers. Google: `retryDelay:
"34s"`."""
_MAX_DELAY_S = 1e6
_LIMITED_KINDS = ("requests", "tokens", "input-tokens", "output-tokens", "")
_DAILY = re.compile(
    r"per[ _-]?day|\bdaily\b|tokens?/day|requests?/day|\((?:TPD|RPD)\)|per[ _-]?(?:week|month)|\b(?:weekly|monthly)\b"
    r"|quota will reset",
    re.I,
)
_DAILY_METRIC = re.compile(r"Per(?:Day|Week|Month)")
"""Part of the name of a daily quota of Google's: the delay that stands beside it is that of a minute, and wrong."""
_USED_UP = re.compile(
    r"exceeded your current quota|quota (?:has been |is |was )?(?:exhausted|used up)|usage limit (?:reached|exceeded)"
    r"|reached your (?:\w+ ){0,3}(?:usage|spend\w*|billing) limit|run out of (?:credits?|tokens)"
    r"|no (?:more )?credits?\b|insufficient quota",
    re.I,
)
_NO_CREDIT = re.compile(
    r"credit balance is too low|insufficient (?:account )?(?:credits?|balance|funds)|out of credits|余额不足|欠费"
    r"|billing hard limit",
    re.I,
)
MAX_QUOTA_WAIT_S = 600.0
"""The longest delay, in seconds, that is waited for where the quota of a day or a month is used up."""


def stated_delay(headers: Mapping[str, str], said: object, words: str, now: float) -> float | None:
    """Return the seconds that the server asks to wait; None when it does not say. ``now``: seconds since the epoch.

    Its headers count before its body: `retry-after-ms`, `Retry-After`, then the members and the text of the body,
    then the limits of which nothing remains.
    """
    found = (
        _seconds(headers.get("retry-after-ms", ""), 0.001, now),
        _seconds(headers.get("retry-after", ""), 1.0, now),
        *_in_body(said, now),
        _in_words(words),
        *_resets(headers, now),
    )
    return next((seconds for seconds in found if seconds is not None), None)


def is_used_up(said: object, words: str, delay: float | None) -> bool:
    """Whether a quota is used up that waiting a while does not bring back."""
    if _DAILY_METRIC.search(words) or any(_DAILY_METRIC.search(each) for each in _texts(said)):
        return True
    if delay is not None and delay <= MAX_QUOTA_WAIT_S:
        return False
    return bool(_DAILY.search(words) or _USED_UP.search(words))


def has_no_credit(words: str) -> bool:
    """Whether the words say, with whatever status, that the account has no credit."""
    return bool(_NO_CREDIT.search(words))


def duration(text: str) -> float | None:
    """Return the seconds of a duration like `6m0s`, `34.07s`, `1.5ms` or `2 hours`; None for any other text."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    parts = _PART.findall(match[0])
    return sum(float(number) * _unit(name.lower()) for number, name in parts)


def _unit(name: str) -> float:
    return _UNITS["ms"] if name.startswith(("ms", "milli")) else _UNITS[name[0]]


def _in_body(said: object, now: float) -> Iterator[float | None]:
    """Yield the delays in members of the body, where OpenRouter also puts the headers of another server."""
    for name, value in members(said):
        unit = _DELAYS.get(name.lower())
        if unit is not None and isinstance(value, str | int | float) and not isinstance(value, bool):
            yield _seconds(str(value), unit, now)
        if name == "headers" and isinstance(value, Mapping):
            yield from _resets({str(key).lower(): str(each) for key, each in value.items()}, now)


def _in_words(words: str) -> float | None:
    match = _STATED_DELAY.search(words)
    return None if match is None else _bounded(duration(match[1]))


def _resets(headers: Mapping[str, str], now: float) -> Iterator[float | None]:
    """Yield the seconds until a limit of which nothing remains begins anew."""
    for family in ("x-ratelimit", "anthropic-ratelimit"):
        for kind in _LIMITED_KINDS:
            remaining, reset = _pair(family, kind)
            if headers.get(remaining, "").strip() == "0":
                yield _seconds(headers.get(reset, ""), 1.0, now)


def _pair(family: str, kind: str) -> tuple[str, str]:
    if family == "anthropic-ratelimit":
        return f"{family}-{kind}-remaining", f"{family}-{kind}-reset"
    end = f"-{kind}" if kind else ""
    return f"{family}-remaining{end}", f"{family}-reset{end}"


def _seconds(value: str, unit: float, now: float) -> float | None:
    """Return the seconds of a number, a duration, a date, or a moment in seconds or milliseconds since the epoch."""
    value = value.strip()[:100]
    try:
        number = float(value)
    except ValueError:
        written = duration(value)
        return _bounded(written if written is not None else _until(value, now))
    if number > 1e12:
        number = max(0.0, number / 1000 - now) / unit
    elif number > 1e9:
        number = max(0.0, number - now) / unit
    return _bounded(number * unit)


def _bounded(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 <= seconds < _MAX_DELAY_S else None


def _until(date: str, now: float) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return max(0.0, read(date).timestamp() - now)
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _texts(said: object) -> Iterator[str]:
    return (value for _, value in members(said) if isinstance(value, str))
