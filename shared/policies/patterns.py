"""Globs and regular expressions that run in linear time, each compiled once."""

from collections.abc import Callable
from functools import lru_cache

from pentad.shared.json_schema import compile_pattern

_OF_EXPRESSIONS = frozenset(r"\.+*?()|[]{}^$")
"""Characters that mean something in a regular expression."""
_NOT_OF_GLOBS = frozenset(r"\+()|{}^$")
"""Characters of which one shows that a text was meant as a regular expression."""
_ANY_SIGN = r"[\s\S]"

Pattern = Callable[[str], bool]
"""Says whether a pattern fits a text."""


@lru_cache(maxsize=4096)
def glob(text: str) -> Pattern:
    """Return the test whether a whole text is as this glob says: ``*`` any characters, ``?`` one, ``[ab]`` one of
    these, ``[!ab]`` none of these.
    """
    return compile_pattern(_of_glob(text))


@lru_cache(maxsize=4096)
def expression(text: str) -> Pattern:
    """Return the test whether this regular expression is found in a text; one that is none is read as a glob.

    Raises ``ValueError`` for what can be neither.
    """
    try:
        return compile_pattern(text)
    except ValueError:
        if not _NOT_OF_GLOBS.isdisjoint(text) or text.count("[") != text.count("]"):
            raise ValueError(
                "it is neither a glob such as *.env nor a regular expression that runs in linear time, which has no "
                "look-around and no references back, and is not too large"
            ) from None
        return glob(text)


def _of_glob(text: str) -> str:
    """Return the regular expression of a glob."""
    made, place = ["^"], 0
    while place < len(text):
        sign, place = text[place], place + 1
        end = text.find("]", place + (2 if text[place : place + 1] == "!" else 1)) if sign == "[" else -1
        if end > 0:
            made.append(_of_set(text[place:end]))
            place = end + 1
        elif sign in "*?":
            made.append(_ANY_SIGN + "*" * (sign == "*"))
        else:
            made.append(_escaped(sign))
    return "".join([*made, "$"])


def _of_set(text: str) -> str:
    """Return the set of characters in brackets; a range such as ``a-z`` stays one, if it is none backwards."""
    negated, signs = text.startswith("!"), text.removeprefix("!")
    made = []
    while signs:
        if signs[1:2] == "-" and signs[2:3] and signs[0] <= signs[2]:
            made.append(f"{_escaped(signs[0])}-{_escaped(signs[2])}")
            signs = signs[3:]
        else:
            made.append(_escaped(signs[0]))
            signs = signs[1:]
    return f"[{'^' if negated else ''}{''.join(made)}]"


def _escaped(sign: str) -> str:
    return f"\\{sign}" if sign in _OF_EXPRESSIONS or sign in "-&~" else sign
