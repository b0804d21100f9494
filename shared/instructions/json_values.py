"""Finds the JSON values that a model's answer holds, among the prose and the Markdown that models put around them.

A model may answer anything, so the time that this takes grows with the length of the answer and no faster: a text is
gone through once, no part of it is tried with a pattern, and the number of values and of failed beginnings is bounded.
"""

from json import JSONDecoder
from typing import Any

from pentad.contracts.plain_json import read_json
from pentad.shared.immutable import immutable
from pentad.shared.lenient_json import read_lenient

MAX_VALUES = 64
"""JSON values of one answer that are looked at."""
MAX_UNCLOSED = 16
"""Opening brackets of prose that nothing closes; each costs a look at the rest of the text."""
MAX_FALSE_STARTS = 1_000
"""Brackets that hold no JSON."""
_FENCE = "```"
_LANGUAGES = ("json5", "jsonc", "json")
_JSON_BEGINS = {"{": '"', "[": '{["-0123456789'}
"""What follows an opening bracket, blanks aside, in JSON that is not empty."""
_decoder = JSONDecoder()


@immutable
class FoundValues:
    """The values of an answer, in their order, each once."""

    values: tuple[Any, ...]
    problem: str = ""
    """Why the answer as a whole is no JSON; '' when it is."""


def find_values(text: str) -> FoundValues:
    """The JSON value that a text is; otherwise the objects and arrays in it, and what stands alone in its fences.

    Mistakes that have one reading are none. What begins like JSON and is otherwise damaged or cut off is passed over
    with all that is in it: a part of an answer is no answer. Raises ``ValueError`` for a text with more values than
    are looked at.
    """
    try:
        return FoundValues((read_lenient(text, None)[0],))
    except ValueError as error:
        problem = str(error)
    found: dict[str, Any] = {}
    for value in [*_brackets(text), *_alone_in_fences(text)]:
        found.setdefault(repr(value), value)
    return FoundValues(tuple(found.values()), problem)


def _brackets(text: str) -> list[Any]:
    """The objects and arrays that are in no other one."""
    found: list[Any] = []
    false_starts = unclosed = 0
    starts = _Starts(text)
    at = starts.next(0)
    while at >= 0:
        end = 0
        try:
            _, end = _decoder.raw_decode(text, at)
            found.append(read_json(text[at:end], None))
        except (ValueError, RecursionError):
            false_starts += 1
            end = end or _closed(text, at)
            if end:
                found += _with_mistakes(text[at:end])
            else:
                unclosed += 1
                if _begins_like_json(text, at) or unclosed > MAX_UNCLOSED:
                    break
                end = at + 1
            if false_starts > MAX_FALSE_STARTS:
                raise ValueError(f"there are more than {MAX_FALSE_STARTS} brackets in it that hold no JSON") from None
        if len(found) > MAX_VALUES:
            raise ValueError(f"there are more than {MAX_VALUES} JSON values in it")
        at = starts.next(end)
    return found


def _with_mistakes(damaged: str) -> list[Any]:
    """What a bracket with its end says, when its mistakes have one reading."""
    try:
        return [read_lenient(damaged, None)[0]]
    except ValueError:
        return []


class _Starts:
    """The opening brackets of a text, in their order. Each character is looked at once for each kind."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known = dict.fromkeys("{[", -2)

    def next(self, at: int) -> int:
        """Where the first one from ``at`` on is; -1: there is none."""
        for bracket, known in self._known.items():
            if known != -1 and known < at:
                self._known[bracket] = self._text.find(bracket, at)
        return min((place for place in self._known.values() if place >= 0), default=-1)


def _closed(text: str, start: int) -> int:
    """Where what an opening bracket begins is closed, strings aside; 0 when nothing closes it."""
    depth, at, length = 0, start, len(text)
    while at < length:
        sign = text[at]
        if sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
            if not depth:
                return at + 1
        elif sign == '"':
            at = _string_end(text, at)
            if not at:
                return 0
            continue
        at += 1
    return 0


def _string_end(text: str, start: int) -> int:
    at = start + 1
    while True:
        end = text.find('"', at)
        if end < 0:
            return 0
        escapes = end
        while escapes > at and text[escapes - 1] == "\\":
            escapes -= 1
        if (end - escapes) % 2 == 0:
            return end + 1
        at = end + 1


def _begins_like_json(text: str, at: int) -> bool:
    following = at + 1
    while following < len(text) and text[following].isspace():
        following += 1
    return following == len(text) or text[following] in _JSON_BEGINS[text[at]]


def _alone_in_fences(text: str) -> list[Any]:
    """The strings, numbers and the like that are all that a Markdown fence has. One that is never ended counts too."""
    found: list[Any] = []
    for fenced in text.split(_FENCE)[1::2]:
        content = fenced.strip()
        language = next((name for name in _LANGUAGES if content[: len(name)].lower() == name), "")
        content = content[len(language) :].lstrip()
        if content and content[0] not in "{[":
            try:
                found.append(read_lenient(content, None)[0])
            except ValueError:
                continue
        if len(found) > MAX_VALUES:
            raise ValueError(f"there are more than {MAX_VALUES} JSON values in it")
    return found
