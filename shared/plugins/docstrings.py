"""Reads docstrings: the description of a tool, and of each parameter (Google, Sphinx or NumPy style)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import cleandoc

_SECTIONS = (
    "args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|yields?|raises|"
    "attributes|examples?|notes?|references|see also|warnings?|warns|todo"
)
_GOOGLE_SECTION = re.compile(rf"^({_SECTIONS})\s*:\s*$", re.IGNORECASE)
_NUMPY_SECTION = re.compile(rf"^({_SECTIONS})\s*$", re.IGNORECASE)
_PARAMETERS = ("arg", "param", "keyword", "other parameters")
_SPHINX_PARAMETER = re.compile(r"^:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = re.compile(r"^:(?:\w+)(?:\s[^:]*)?:(?:\s|$)")
_GOOGLE_PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_PARAMETER = re.compile(r"^\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")


_BLANKS = re.compile(r"\n{3,}")


@dataclass(slots=True)
class Doc:
    """The parts of a docstring."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Doc:
    """Return the description without its sections, and one text for each described parameter."""
    reader = _Reader()
    lines = cleandoc(text or "").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        reader.read(line, following)
    return reader.doc()


class _Reader:
    """Reads a docstring line by line and remembers which section it is in."""

    def __init__(self) -> None:
        self._prose: list[str] = []
        self._parameters: dict[str, list[str]] = {}
        self._names: tuple[str, ...] = ()
        self._section = ""
        self._indent = 0
        self._parse: Callable[[str, int], None] = self._google

    def doc(self) -> Doc:
        described = {name: " ".join(filter(None, words)) for name, words in self._parameters.items()}
        return Doc(
            _BLANKS.sub("\n\n", "\n".join(self._prose).strip()),
            {name: text for name, text in described.items() if text},
        )

    def read(self, line: str, following: str) -> None:
        stripped, indent = line.strip(), len(line) - len(line.lstrip())
        if self._opens(stripped, indent, following) or self._underline(stripped):
            return
        if self._section == "":
            self._prose.append(line)
        elif self._section == "parameters" and stripped:
            self._parse(stripped, indent)

    def _opens(self, stripped: str, indent: int, following: str) -> bool:
        """Open the section that this line starts, and return whether it starts one."""
        if indent == 0 and _SPHINX_FIELD.match(stripped):
            self._open(":param", self._sphinx)
            self._sphinx(stripped, indent)
            return True
        if indent == 0 and _NUMPY_SECTION.match(stripped) and _is_underline(following.strip()):
            self._open(stripped, self._numpy)
            return True
        if indent == 0 and _GOOGLE_SECTION.match(stripped) and not following[:1].strip():
            self._open(stripped, self._google)
            return True
        if indent == 0 and stripped and self._section and self._parse == self._google:
            self._section, self._names = "", ()  # prose after a Google section
        return False

    def _open(self, title: str, parse: Callable[[str, int], None]) -> None:
        relevant = title.lower().lstrip(":").startswith(_PARAMETERS)
        self._section = "parameters" if relevant else "other"
        self._names, self._indent = (), 0
        self._parse = parse

    def _underline(self, stripped: str) -> bool:
        return self._parse == self._numpy and _is_underline(stripped)

    def _sphinx(self, stripped: str, indent: int) -> None:
        found = _SPHINX_PARAMETER.match(stripped)
        if found:
            self._begin((found[1],), found[2])
        elif indent == 0:
            self._names = ()  # :returns: and the like
        else:
            self._go_on(stripped)

    def _google(self, stripped: str, indent: int) -> None:
        self._indent = self._indent or indent
        found = _GOOGLE_PARAMETER.match(stripped) if indent <= self._indent else None
        if found:
            self._begin((found[1],), found[2])
        else:
            self._go_on(stripped)

    def _numpy(self, stripped: str, indent: int) -> None:
        found = _NUMPY_PARAMETER.match(stripped) if indent == 0 else None
        if found:
            self._begin(tuple(name.strip(" *") for name in found[1].split(",")), "")
        elif indent:
            self._go_on(stripped)

    def _begin(self, names: tuple[str, ...], text: str) -> None:
        self._names = names
        for name in names:
            self._parameters[name] = [text]

    def _go_on(self, text: str) -> None:
        for name in self._names:
            self._parameters[name].append(text)


def _is_underline(text: str) -> bool:
    return len(text) >= 3 and set(text) <= {"-", "="}
