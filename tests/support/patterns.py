"""Every compiled pattern of the house, found by looking so that new ones are too, and texts that make patterns slow."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import thread_time
from typing import Any

import pentad

ROOT = Path(__file__).parents[2]
FLOORS = ("contracts", "shared", "services", "pentad")
_METHODS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "subn", "split")
_PIECES = (
    *("a", " ", "\t", "\n", "a ", "A ", "Aa ", "1", "1 ", "1+", "(", "((", "-", ".", "...", "!?", "'", '"', "'s", "我"),
    *("吗", "我 ", "?", "? ", "。", "a1.", "a-", "please ", "the ", "Mr. ", "of ", "not ", "`", "```\n", "\n\n", "{{"),
    *("{{ a", "- ", "cancel ", "that ", "stop ", "it ", ",", ", ", "a,", "1.1", "1 + ", "( 1", "<", "</", "at ", "in "),
    *(
        "1:1",
        "2026-",
        "A.B.",
        "AB",
        "O'",
        "A-",
        "é",
        "é ",
        "１",
        "_",
        "__",
        ":",
        "a:",
        "a: ",
        "\u2028",
        "--",
        "local a",
    ),
    *("\\", '\\\\"', "no, ", "don't ", "01-", "a/", "/", "=", "a=", "[", "]", "{", "}", "#", " #", "\r", "1e", "ab12"),
    *("@", ";", "1" * 299 + ",", "a" * 63 + " ", "`" * 31 + " "),
)
_ENDS = ("", "!x", "\n\x00")
_SCREENED = 1_024
_TRIED_LONGER = 6


@dataclass
class Found:
    """A pattern, and how the code uses it."""

    place: str
    """MODULE.NAME, or MODULE:LINE where the pattern stands in a call."""
    pattern: re.Pattern[Any]
    methods: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Worst:
    """The text on which a pattern takes longest."""

    place: str
    seconds: float
    text: str
    """How it is made."""


def every_pattern() -> list[Found]:
    """Those that modules keep, also in tuples, tables and objects, and those that stand in a call of `re`."""
    found: dict[tuple[Any, int], Found] = {}
    sources = {path: path.read_text() for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))}
    used: dict[str, set[str]] = {}
    for name, method in re.findall(rf"(\w+)\.({'|'.join(_METHODS)})\b", "\n".join(sources.values())):
        used.setdefault(name, set()).add(method)
    for name in _modules():
        module = importlib.import_module(name)
        for attribute, value in list(vars(module).items()):
            for pattern, method in _patterns_in(value, 0):
                kept = found.setdefault((pattern.pattern, pattern.flags), Found(f"{name}.{attribute}", pattern))
                kept.methods |= {method} if method else used.get(attribute, set())
    for path, source in sources.items():
        for line, pattern, method in _calls(source):
            place = f"{path.relative_to(ROOT)}:{line}"
            found.setdefault((pattern.pattern, pattern.flags), Found(place, pattern)).methods.add(method)
    return sorted(found.values(), key=lambda each: each.place)


def _modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(pentad.__path__, "pentad."):
        if not found.name.endswith("__main__"):
            yield found.name


def _patterns_in(value: Any, depth: int) -> Iterator[tuple[re.Pattern[Any], str]]:
    """Each pattern, and the method of it where that alone is kept."""
    if isinstance(value, re.Pattern):
        yield value, ""
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__, value.__name__
    elif depth > 4:
        return
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _patterns_in(each, depth + 1)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _patterns_in(each, depth + 1)
    elif type(value).__module__.startswith("pentad."):
        slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ()) if isinstance(name, str)]
        for each in [*getattr(value, "__dict__", {}).values(), *slots]:
            yield from _patterns_in(each, depth + 1)


def _calls(source: str) -> Iterator[tuple[int, re.Pattern[str], str]]:
    if not any(f"re.{method}" in source for method in _METHODS):
        return
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        called = node.func
        if not (isinstance(called.value, ast.Name) and called.value.id == "re" and called.attr in _METHODS):
            continue
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            flags = {ast.unparse(word.value) for word in node.keywords if word.arg == "flags"}
            flags |= {ast.unparse(each) for each in node.args if ast.unparse(each).startswith("re.")}
            yield node.lineno, re.compile(first.value, _flags(flags)), called.attr


def _flags(words: set[str]) -> int:
    value = 0
    for word in (each.strip() for text in words for each in text.split("|")):
        value |= int(getattr(re, word.removeprefix("re.")))
    return value


def slowest(found: Found, size: int, bound_s: float) -> Worst:
    """The hostile text of this size that holds the pattern longest; none longer is tried once one breaks the bound.

    Of all short texts the worst are tried at double the length, again and again, so that what grows faster than its
    text is noticed before it takes for ever.
    """
    length = min(size, _SCREENED)
    pieces = dict.fromkeys((*_PIECES, *_words_of(found.pattern)))
    seen = [(cost(found, _text(piece, end, length)), piece, end) for piece in pieces for end in _ENDS]
    while True:
        seen = sorted(seen, reverse=True)[:_TRIED_LONGER]
        if length >= size or seen[0][0] > bound_s:
            break
        length = min(size, 4 * length)
        seen = [(cost(found, _text(piece, end, length)), piece, end) for _, piece, end in seen]
    seconds, piece, end = seen[0]
    if seconds > bound_s / 3:  # not for what else the machine did
        seconds = min(seconds, *(cost(found, _text(piece, end, length)) for _ in range(2)))
    return Worst(found.place, seconds, f"{piece[:20]!r} again and again, {end!r} at the end, {length} characters")


def _words_of(pattern: re.Pattern[Any]) -> list[str]:
    """What the pattern itself has between its signs."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    words = re.findall(r"[a-z'一-鿿]{2,12}", text)[:60]
    return [*words, *(f"{word} " for word in words)]


def _text(piece: str, end: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size] + end


def cost(found: Found, text: str) -> float:
    """Seconds of processor time that the uses of the pattern take on a text, the slowest of them."""
    pattern, given = found.pattern, text if isinstance(found.pattern.pattern, str) else text.encode()
    times = []
    for method in found.methods or {"finditer", "fullmatch"}:
        begun = thread_time()
        if method in ("sub", "subn"):
            pattern.sub("" if isinstance(given, str) else b"", given)
        elif method in ("finditer", "findall", "split"):
            for _ in pattern.finditer(given):
                pass
        else:
            getattr(pattern, method)(given)
        times.append(thread_time() - begun)
    return max(times)
