"""Checks a model's answer against a JSON schema: finds the JSON value in it that fits, or the mistakes.

The checker holds Python's lock as long as it works: `schema_weight` tells which schemas cannot make it work for long.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from json import JSONDecoder
from typing import Any

from pydantic_core import to_json

from pentad.contracts.plain_json import read_json
from pentad.shared.immutable import immutable
from pentad.shared.json_schema import SchemaMistake, compile_schema, shortened
from pentad.shared.lenient_json import read_lenient

MAX_VALUES = 64
"""JSON values of one answer that are read."""
MAX_UNCLOSED = 16
"""Opening brackets of prose that nothing closes; each costs a search of the rest of the text."""
MAX_FALSE_STARTS = 1_000
"""Brackets without JSON that one answer may have."""
_FENCE = "```"
_LANGUAGES = ("json5", "jsonc", "json")
_JSON_STARTS = {"{": '"', "[": '{["-0123456789'}
"""Characters that may follow an opening bracket, blanks aside, in JSON that is not empty."""
_decoder = JSONDecoder()


@immutable
class FoundValues:
    """The values of an answer, in their order, each once."""

    values: tuple[Any, ...]
    problem: str = ""
    """The reason why the answer as a whole is no JSON; '' when it is."""


def find_values(text: str) -> FoundValues:
    """Return the JSON value that a text is; otherwise the objects and arrays in it, and values that stand alone in
    its fences.

    Mistakes that have one reading are corrected. Text that begins like JSON and is otherwise damaged or cut off is
    passed over with everything in it: a part of an answer is no answer. Raises ``ValueError`` for a text with too
    many values.
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
    """Return the objects and arrays that are within no other one."""
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
    """Return the value of a damaged object or array when its mistakes have one reading."""
    try:
        return [read_lenient(damaged, None)[0]]
    except ValueError:
        return []


class _Starts:
    """The opening brackets of a text, in their order. Each character is read once for each kind of bracket."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known = dict.fromkeys("{[", -2)

    def next(self, at: int) -> int:
        """Return the position of the first one from ``at`` on; -1 when there is none."""
        for bracket, known in self._known.items():
            if known != -1 and known < at:
                self._known[bracket] = self._text.find(bracket, at)
        return min((place for place in self._known.values() if place >= 0), default=-1)


def _closed(text: str, start: int) -> int:
    """Return the position behind the bracket that closes this one, strings aside; 0 when nothing closes it."""
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
    return following == len(text) or text[following] in _JSON_STARTS[text[at]]


def _alone_in_fences(text: str) -> list[Any]:
    """Return the strings, numbers and the like that stand alone in a Markdown fence, also in one that never ends."""
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


MAX_ANSWER = 524_288
"""Bytes that an answer may have that must be JSON."""
_MAX_WRAPPINGS = 2
"""Number of times that a value may have been turned into a JSON text."""
_MAX_PROBLEMS = 5
_PROBES: tuple[Any, ...] = (None, 0, "", [], {})
"""Values with which a schema is tried when it is registered."""


class WrongOutput(ValueError):  # noqa: N818 - reads as what it is
    """The answer does not fit the schema. The text says why, for the model that is asked again."""


class SchemaCheck:
    """One schema, ready to be used. Every method runs in the calling thread, for as long as it takes."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raise ``WrongSchema`` for a wrong schema. References are not fetched, and patterns run in linear time."""
        self._validator = compile_schema(schema, "output_schema")

    def probe(self) -> None:
        """Check a few small values, so that a schema that takes for ever does so where it is registered."""
        for value in _PROBES:
            next(iter(self._validator.iter_errors(value)), None)

    def fitting(self, text: str) -> str:
        """Return the one value of the answer that fits, as JSON; also one that was turned into a JSON text.

        Raises ``WrongOutput``.
        """
        if len(text) > MAX_ANSWER or len(text.encode("utf-8", "replace")) > MAX_ANSWER:
            raise WrongOutput(f"it has more than {MAX_ANSWER} bytes")
        try:
            found = find_values(text)
        except ValueError as error:
            raise WrongOutput(str(error)) from None
        values = found.values
        fits = self._fits(values)
        if not fits and (inner := _in_texts(values)):
            values, fits = inner, self._fits(inner)
        if len(fits) == 1:
            return to_json(fits[0]).decode()
        if fits:
            raise WrongOutput(
                f"{len(fits)} JSON values in it fit the schema: answer with one JSON value and no other text"
            )
        if not values:
            raise WrongOutput(f"it is not JSON: {shortened(found.problem)}")
        raise WrongOutput(self._problems(values[-1], len(values)))

    def _fits(self, values: Sequence[Any]) -> list[Any]:
        return [value for value in values if self._validator.is_valid(value)]

    def _problems(self, value: Any, count: int) -> str:
        wrong = islice(self._validator.iter_errors(value), _MAX_PROBLEMS)
        problems = "; ".join(f"{_where(each)}: {shortened(each.message)}" for each in wrong)
        return problems if count == 1 else f"none of the {count} JSON values in it fits; of the last one, {problems}"


def _in_texts(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of the texts among these that are JSON; a text may have been turned into JSON twice."""
    found: dict[str, Any] = {}
    for value in values:
        inner = value
        for _ in range(_MAX_WRAPPINGS):
            if isinstance(inner, str):
                try:
                    inner, _json = read_lenient(inner)
                except ValueError:
                    break
        if inner is not value:
            found.setdefault(repr(inner), inner)
    return tuple(found.values())


def _where(wrong: SchemaMistake) -> str:
    return shortened("/".join(str(part) for part in wrong.instance_path)) or "the value"
