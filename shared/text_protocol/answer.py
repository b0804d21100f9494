"""Reads answers in the text protocol: strictly when they are whole, and piece by piece for clients. Pure."""

import re
from collections.abc import Iterator
from typing import Literal

from pentad.shared.immutable import immutable
from pentad.shared.lenient_json import read_lenient

THOUGHT, ACTION, INPUT, OBSERVATION, FINAL = "Thought", "Action", "Action Input", "Observation", "Final Answer"
LABELS = (FINAL, INPUT, ACTION, OBSERVATION, THOUGHT)
"""Labels that begin a section, a longer one before one that it begins with."""
_LABEL = re.compile(rf"^[ \t]*(?:\*\*)?({'|'.join(LABELS)})(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]?", re.MULTILINE)
"""A label at the beginning of a line; some models write it in bold letters."""
_MAX_LABEL = 32
"""Characters within which the colon behind a label stands."""
_MAX_INDENT = 256
"""Characters of a line that are held back for a label; no blank line is longer."""
_FORM = (
    f"Write `{THOUGHT}:`, then either `{ACTION}:` with the name of one tool and `{INPUT}:` with one JSON object, or "
    f"`{FINAL}:` with the answer"
)


class MalformedAnswer(ValueError):  # noqa: N818 - reads as what happened
    """The answer is not of the text protocol. The message tells the model what is wrong."""


@immutable
class TextAnswer:
    """An answer in the text protocol: a tool call, or the final answer."""

    thought: str
    final: str | None = None
    tool: str = ""
    arguments: str = ""
    """Arguments of the call, a JSON object."""


def read_answer(text: str) -> TextAnswer:
    """Return what a whole answer says. Raises ``MalformedAnswer``.

    What stands behind an observation is not read: the model has made it up.
    """
    sections = list(_sections(text))
    names = [name for name, _ in sections]
    if OBSERVATION in names:
        cut = names.index(OBSERVATION)
        sections, names = sections[:cut], names[:cut]
    if not names:
        raise MalformedAnswer(f"it has no label. {_FORM}")
    thought = "\n".join(said for name, said in sections if name == THOUGHT and said)
    if FINAL in names:
        return _final(sections, names, thought)
    if ACTION not in names:
        raise MalformedAnswer(f"it has neither `{ACTION}:` nor `{FINAL}:`. {_FORM}")
    if names.count(ACTION) > 1 or names.count(INPUT) > 1:
        raise MalformedAnswer(f"it has more than one `{ACTION}:`. Take one action, and wait for its {OBSERVATION}")
    if INPUT not in names or names.index(INPUT) != names.index(ACTION) + 1:
        raise MalformedAnswer(f"`{ACTION}:` must be followed by `{INPUT}:` with one JSON object, `{{}}` for none")
    tool = dict(sections)[ACTION].strip().strip("`")
    if not tool or "\n" in tool:
        raise MalformedAnswer(f"`{ACTION}:` must be followed by the name of one tool, and nothing else")
    return TextAnswer(thought, tool=tool, arguments=_object(dict(sections)[INPUT]))


def _object(said: str) -> str:
    """Return the arguments of a call, which must be whole. Raises ``MalformedAnswer``."""
    try:
        found, text = read_lenient(said)
    except ValueError as error:
        raise MalformedAnswer(f"`{INPUT}:` is no JSON object: {error}. Write one object, `{{}}` for none") from None
    if not isinstance(found, dict):
        raise MalformedAnswer(f"`{INPUT}:` must be one JSON object, with the names of the arguments, `{{}}` for none")
    return text


def _final(sections: list[tuple[str, str]], names: list[str], thought: str) -> TextAnswer:
    if ACTION in names or INPUT in names:
        raise MalformedAnswer(
            f"it has an `{ACTION}:` and a `{FINAL}:`. Take the action and wait for its {OBSERVATION}, or answer"
        )
    first = names.index(FINAL)
    final = "\n".join(f"{name}: {said}" if n else said for n, (name, said) in enumerate(sections[first:]))
    if not final:
        raise MalformedAnswer(f"`{FINAL}:` is followed by nothing. Write the answer behind it")
    return TextAnswer(thought, final)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    found = list(_LABEL.finditer(text))
    for number, label in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(text)
        yield label[1], text[label.end() : end].strip()


Shown = Literal["thinking", "content"]
_SHOWN: dict[str, Shown] = {THOUGHT: "thinking", FINAL: "content"}


class TextSplitter:
    """Tells clients the thoughts and the final answer of an answer while it comes, and nothing else of it."""

    def __init__(self) -> None:
        self._section = ""
        self._line = ""
        """The beginning of a line that may be a label."""
        self._held = ""
        """Blanks that are told only if something follows them."""
        self._begun = False
        """Whether a line has begun that is no label."""
        self._fresh = True
        """Whether nothing of the section was told yet."""
        self._over = False

    def feed(self, text: str) -> list[tuple[Shown, str]]:
        """Return the pieces that can be told now."""
        told: list[tuple[Shown, str]] = []
        *lines, last = text.split("\n")
        for line in (*(f"{line}\n" for line in lines), *([last] if last else ())):
            self._line += line
            if self._line.endswith("\n") or not _may_be_label(self._line):
                told += self._take(self._line)
                self._line = ""
        return told

    def finish(self) -> list[tuple[Shown, str]]:
        """Return the last pieces, when all has come."""
        told = list(self._take(self._line))
        self._line = ""
        return told

    def _take(self, line: str) -> Iterator[tuple[Shown, str]]:
        label = None if self._begun else _LABEL.match(line)
        self._begun = not line.endswith("\n")
        if label is not None:
            self._over = self._over or label[1] == OBSERVATION
            self._section, self._held, line = label[1], "", line[label.end() :].lstrip()
            self._fresh = True
        shown = _SHOWN.get(self._section)
        if shown is None or self._over:
            return
        whole = self._held + line
        said = whole.rstrip()
        if self._fresh:
            said = said.lstrip()
        self._held = whole[len(whole.rstrip()) :]
        if said:
            self._fresh = False
            yield shown, said


def _may_be_label(line: str) -> bool:
    """Whether a line that has not ended may still turn out to be a label."""
    if len(line) > _MAX_INDENT:
        return False
    begun = line.lstrip(" \t*")
    if ":" in line[: _MAX_LABEL + len(line) - len(begun)]:
        return False
    return any(label.startswith(begun.rstrip("* \t")) for label in LABELS) and len(begun) < _MAX_LABEL
