"""How things look in a terminal: colours only where they are wanted, foreign text made harmless, tables."""

import json
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from pentad.contracts.events import ToolResultEvent
from pentad.contracts.ids import milliseconds
from pentad.contracts.records import Task
from pentad.contracts.turns import NEEDS_CLIENT
from pentad.shared.settings import Settings

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_DIM, _BOLD, _ITALIC, _END = "\x1b[2m", "\x1b[1m", "\x1b[3m", "\x1b[0m"
_RED, _GREEN, _YELLOW, _CYAN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
_COLOURS = tuple(f"\x1b[{code}m" for code in (36, 35, 34, 96, 95, 94))
"""Colours to tell things apart that mean nothing by themselves: neither red, green nor yellow."""


class Style:
    """Colours, or none of them."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def dim(self, text: str) -> str:
        return self._in(_DIM, text)

    def bold(self, text: str) -> str:
        return self._in(_BOLD, text)

    def italic(self, text: str) -> str:
        return self._in(_ITALIC, text)

    def code(self, text: str) -> str:
        return self._in(_CYAN, text)

    def red(self, text: str) -> str:
        return self._in(_RED, text)

    def green(self, text: str) -> str:
        return self._in(_GREEN, text)

    def yellow(self, text: str) -> str:
        return self._in(_YELLOW, text)

    def nth(self, number: int, text: str) -> str:
        """One of several colours, the same for the same number."""
        return self._in(_COLOURS[number % len(_COLOURS)], text)

    def _in(self, code: str, text: str) -> str:
        return f"{code}{text}{_END}" if self._colour and text else text


def style_for(stream: TextIO, settings: Settings) -> Style:
    """Colours when the stream is a terminal and ``NO_COLOR`` is not set."""
    return Style(stream.isatty() and not getattr(settings, "no_color", None))


_LEAST_TEXT = 30
"""Characters of a table's last cell, however narrow the terminal is."""


def harmless(text: str) -> str:
    """Text of a model or a tool without what would move the cursor, recolour the screen or turn lines around."""
    return _CONTROL.sub("", text)


def one_line(text: str, width: int) -> str:
    """At most ``width`` characters on one line; what is cut off is marked."""
    flat = " ".join(harmless(text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def arguments(args: dict[str, Any] | str) -> str:
    """A call's arguments as one writes them; raw text where they did not parse."""
    if isinstance(args, str):
        return args
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())


def call_line(tool: str, args: dict[str, Any] | str, columns: int) -> str:
    """``name(args)``; the arguments take at most half of the line."""
    return f"{harmless(tool)}({one_line(arguments(args), max(20, columns // 2))})"


def result_line(call: str, result: ToolResultEvent, columns: int) -> str:
    """``name(args) → result (took 12 ms)`` in one line; without the time for a call that did not run to its end."""
    error = None if result.error is None else result.error.removeprefix(f"{result.tool}: ")
    outcome = f"error: {error}" if error is not None else result.result or ""
    has_ended = error is None or result.duration_ms > 0  # an event has 0 for what is not known
    tail = f" (took {lasting(result.duration_ms)})" if has_ended else ""
    return f"{call} → {one_line(outcome, max(20, columns - len(call) - len(tail) - 5))}{tail}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> str:
    """Columns as wide as their widest cell; the last one is not padded."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True)).rstrip()

    return "\n".join([style.dim(line(header)), *map(line, rows)])


def fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Rows of a table whose last cell, a text of any length, takes what the others leave of the line."""
    others = [[harmless(cell) for cell in row[:-1]] for row in rows]
    taken = sum(max(map(len, column)) + 2 for column in zip(*[header[:-1], *others], strict=True))
    left = max(_LEAST_TEXT, width() - taken)
    return [(*cells, one_line(row[-1], left)) for cells, row in zip(others, rows, strict=True)]


def ago(at: str, now: datetime | None = None) -> str:
    """How long ago a time of the system was, e.g. ``3 min``; the text itself when it is no time."""
    try:
        passed = (now or datetime.now(UTC)).timestamp() - milliseconds(at) / 1000
    except ValueError:
        return at
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if passed >= size:
            return f"{passed // size:.0f} {unit}"
    return f"{max(0, passed):.0f} s"


def lasting(ms: int) -> str:
    """A duration: ``12 ms``, ``3.2 s``, ``2 min 5 s``."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


APPLICATION = "waits for the application that asked"
"""Words for a task or a call whose result an application is to send, which runs the tool itself."""


def awaited(task: Task) -> str:
    """Say what a task waits for: tools by their names, or the question that a person is asked; empty for nothing."""
    if task.waiting_for_tools:
        return "waits for " + ", ".join(dict.fromkeys(task.waiting_for_tools))
    return ", ".join(APPLICATION if each == NEEDS_CLIENT else each for each in task.waiting_for)


def plural(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
