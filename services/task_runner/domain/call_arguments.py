"""Reads the arguments of a tool call, as models write them. Pure.

Models write JSON that is nearly right: line ends within strings, a comma behind the last member, ``\\'``, ``null`` for
no arguments, an object that was made a JSON text once more. Such texts have one reading, and are read. A text that was
cut off is never completed: nobody knows what it would have said.
"""

import re

from pydantic_core import to_json

from pentad.contracts.plain_json import MOST_VALUES, read_json
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable

MAX_MENDED = 1 << 17
"""Characters of a text whose mistakes are mended; a longer one is read as it is or not at all."""
MAX_STRINGS = 10_000
"""Strings of a text with mistakes that are looked at; one with more is not read."""
_MAX_WRAPPED = 2
"""How often an object may have been made a JSON text."""
_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""What follows an opening quotation mark, to the closing one."""
_LOOSE_COMMA = re.compile(r",(\s*+[\]}])")
_ESCAPED_APOSTROPHE = re.compile(r"(?<!\\)((?:\\\\)*+)\\'")
_CONTROL = {code: f"\\u{code:04x}" for code in range(0x20)}
_WHERE = re.compile(r" at line (\d+) column (\d+)$")
_SEND = "send one JSON object, with double quotes around names and texts and \\n for a line end within a text"


@immutable
class ParsedArguments:
    """A call's arguments as the model wrote them: an object, or the raw text and what is wrong with it."""

    args: dict[str, object] | None
    raw: str
    """The arguments as JSON; where they cannot be read, the model's text."""
    problem: str = ""


def parse_arguments(raw: str, most_values: int = MOST_VALUES) -> ParsedArguments:
    """Read a call's arguments; an empty text and ``null`` are an empty object. ``most_values``: more are not read."""
    text, found = raw.strip() or "{}", None
    for _ in range(_MAX_WRAPPED + 1):
        try:
            found, text = _read(text, most_values)
        except ValueError as error:
            return ParsedArguments(None, raw, _in_words(text, error))
        if not isinstance(found, str):
            break
        text = found
    if found is None:
        return ParsedArguments({}, "{}")
    if not isinstance(found, dict):
        return ParsedArguments(None, raw, f"the arguments are not a JSON object: {_SEND}")
    return ParsedArguments(found, text)


def _read(text: str, most_values: int) -> tuple[object, str]:
    """What a text says, and the text without its mistakes. Raises ``ValueError`` for the text as it was."""
    try:
        return read_json(text, most_values), text
    except ValueError as error:
        if len(text) > MAX_MENDED:
            raise
        mended = _mended(text)
        try:
            found = read_json(mended, most_values)
        except ValueError:
            raise error from None
    return found, to_json(found).decode()


def _mended(text: str) -> str:
    """The text without the mistakes that have one reading; gone through once."""
    pieces: list[str] = []
    at = 0
    for _ in range(MAX_STRINGS):
        begin = text.find('"', at)
        pieces.append(_LOOSE_COMMA.sub(r"\1", text[at : begin if begin >= 0 else len(text)]))
        if begin < 0:
            return "".join(pieces)
        string = _STRING.match(text, begin + 1)
        if string is None:
            return text
        pieces.append('"' + _ESCAPED_APOSTROPHE.sub(r"\1'", string.group()).translate(_CONTROL))
        at = string.end()
    return text


def _in_words(text: str, error: ValueError) -> str:
    """What is wrong with a text, for the model that wrote it."""
    said = str(error)
    if said.startswith("EOF"):
        return f"the arguments are not JSON: they end before the object does; {_SEND}"
    where = _WHERE.search(said)
    if where is None:
        return f"the arguments are not JSON ({said}): {_SEND}"
    lines = text.split("\n", int(where[1]))
    near = lines[int(where[1]) - 1].encode()[max(0, int(where[2]) - 10) :][:40].decode(errors="replace")
    return f"the arguments are not JSON: what is wrong is near {clip(near, 40)!r}; {_SEND}"
