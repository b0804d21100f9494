"""JSON as models write it, nearly right: a text that has one reading is read, any other is refused. Pure.

Such mistakes are line ends within strings, a comma behind the last member, ``\\'``, Python's ``True``, ``False`` and
``None``, a mark of the byte order and a Markdown fence around it all. A text that was cut off is never completed:
nobody knows what it would have said.
"""

import re
from typing import Any

from pydantic_core import to_json

from pentad.contracts.plain_json import MOST_VALUES, read_json

MAX_MENDED = 1 << 17
"""Characters of a text whose mistakes are mended; a longer one is read as it is or not at all."""
MAX_STRINGS = 10_000
"""Strings of a text with mistakes that are looked at; one with more is not read."""
_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""The rest of a string behind its opening quotation mark, to the closing one."""
_LOOSE_COMMA = re.compile(r",(\s*+[\]}])")
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_PYTHON_WORD = re.compile(r"\b(?:True|False|None)\b")
_ESCAPED_APOSTROPHE = re.compile(r"(?<!\\)((?:\\\\)*+)\\'")
_CONTROL = {code: f"\\u{code:04x}" for code in range(0x20)}
_FENCE = "```"
_LANGUAGE = re.compile(r"json[5c]?|\w{1,20}(?=\r?\n)", re.IGNORECASE)
_AROUND = " \t\r\n\ufeff"
"""Blanks, line ends and the mark of the byte order."""


def read_lenient(text: str, most_values: int | None = MOST_VALUES) -> tuple[Any, str]:
    """Return the value of a text, also of one with mistakes that have one reading, and JSON of that value.

    Raises ``ValueError``, which says what is wrong in the text without its fence, and for more than ``most_values``.
    """
    text = unfenced(text)
    try:
        return read_json(text, most_values), text
    except ValueError as error:
        if len(text) > MAX_MENDED:
            raise
        try:
            found = read_json(without_mistakes(text), most_values)
        except ValueError:
            raise error from None
    return found, to_json(found).decode()


def unfenced(text: str) -> str:
    """A text without blanks and a mark of the byte order around it, and without the Markdown fence that it is in."""
    text = text.strip(_AROUND)
    if not text.startswith(_FENCE):
        return text
    text = text.removeprefix(_FENCE).removesuffix(_FENCE)
    language = _LANGUAGE.match(text)
    return text[language.end() if language is not None else 0 :].strip(_AROUND)


def without_mistakes(text: str) -> str:
    """The text without the mistakes that have one reading; gone through once."""
    pieces: list[str] = []
    at = 0
    for _ in range(MAX_STRINGS):
        begin = text.find('"', at)
        pieces.append(_mended(text[at : begin if begin >= 0 else len(text)]))
        if begin < 0:
            return "".join(pieces)
        string = _STRING.match(text, begin + 1)
        if string is None:
            return text
        pieces.append('"' + _ESCAPED_APOSTROPHE.sub(r"\1'", string.group()).translate(_CONTROL))
        at = string.end()
    return text


def _mended(between: str) -> str:
    """Correct the text between two strings."""
    return _PYTHON_WORD.sub(lambda word: _PYTHON[word[0]], _LOOSE_COMMA.sub(r"\1", between))
