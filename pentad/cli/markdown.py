"""Markdown of a model for a terminal: plain text with emphasis, while it streams.

Text is shown as soon as nothing that follows can change how it looks. So only the beginning of a line and what stands
behind an opening mark wait, for a bounded number of characters; then they are shown as they were written.
"""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from pentad.cli.render import Style

Paint = Callable[[str], str]

MAX_HELD = 500
"""Characters that wait at most for the end of a line's beginning, of an emphasis, a code or a link."""
_MAX_DEPTH = 4
"""Emphases within each other that are read; what is deeper is shown as it was written."""
_RULE = "─" * 8
_RULE_LINE = re.compile(r" {0,3}([-*_])(?: {0,8}\1){2,99} {0,99}")
_HEADING = re.compile(r" {0,3}#{1,6} +")
_QUOTE = re.compile(r" {0,3}(?:> ?)+")
_BULLET = re.compile(r"( *)[-*+] +")
_TABLE = re.compile(r" *\|")
_FENCE = re.compile(r" {0,12}(`{3,}|~{3,})")
_MAYBE_MARK = re.compile(r"[ \t]*(?:#{1,6} *|[-*_+][-*_ ]*|[>`~][>`~ ]*)?")
"""The beginning of a line that more text may still make a heading, a list, a quote, a rule or a fence of."""
_MARK = re.compile(r"[\\`*_\[!]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_LINK = re.compile(
    r"!?\[([^\[\]]{0,500})\]\( {0,4}<?([^()\s<>]{0,500}(?:\([^()\s<>]{0,99}\)[^()\s<>]{0,99})?)>?"
    r"(?: {1,4}\"[^\"]{0,99}\")?\)"
)
_MAYBE_LINK = re.compile(r"!?\[[^\[\]]*(?:\](?:\([^()]*(?:\([^()]*(?:\)[^()]*)?)?)?)?")
_INSIDE = re.compile(r"[A-Za-z0-9]")
"""A mark beside one of these is part of a word or a sum, as in `2*3*4` and `a_name`, not an emphasis."""
_CLOSING = {
    "*": re.compile(r"(?<![\s\\*])\*(?![*A-Za-z0-9])"),
    "**": re.compile(r"(?<![\s\\*])\*\*(?!\*)"),
    "***": re.compile(r"(?<![\s\\*])\*\*\*(?!\*)"),
    "_": re.compile(r"(?<![\s\\_])_(?![_A-Za-z0-9])"),
    **{"`" * ticks: re.compile(rf"(?<!`){'`' * ticks}(?!`)") for ticks in (1, 2, 3)},
}
"""The end of what a run of marks encloses. `__init__` is a name more often than it is bold."""


class Prose(Protocol):
    """Text of a model on its way to the screen."""

    def feed(self, text: str) -> str:
        """Take further text; return what is to be shown now."""

    def end_line(self) -> str:
        """Return what is still held: something else is shown in the next line."""

    def reset(self) -> None:
        """Forget what is held: another text begins."""


class Verbatim:
    """Text is shown as the model wrote it."""

    def feed(self, text: str) -> str:
        """See ``Prose``."""
        return text

    def end_line(self) -> str:
        """See ``Prose``."""
        return ""

    def reset(self) -> None:
        """See ``Prose``."""


class Markdown:
    """Text is shown as its Markdown means it. Control characters must be gone from it before."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._held = ""
        self._fence = ""
        """The marks that began a block of code; empty outside of one."""
        self._begin_line()

    def _begin_line(self) -> None:
        self._begun = False
        self._verbatim = False
        """The rest of the line is code or a row of a table."""
        self._paints: tuple[Paint, ...] = ()
        self._before = ""
        """The character of the line that was read last."""

    def feed(self, text: str) -> str:
        """See ``Prose``."""
        *lines, last = (self._held + text).split("\n")
        shown = []
        for line in lines:
            shown += [*self._read(line, whole=True), "\n"]
            self._begin_line()
        shown += self._read(last, whole=False)
        return "".join(shown)

    def end_line(self) -> str:
        """See ``Prose``."""
        shown = "".join(self._read(self._held, whole=True)) if self._held else ""
        self._held = ""
        self._begin_line()
        return shown

    def reset(self) -> None:
        """See ``Prose``."""
        self._held, self._fence = "", ""
        self._begin_line()

    def _read(self, text: str, *, whole: bool) -> Iterator[str]:
        """Yield what can be shown of the text; the rest is held. ``whole``: the line ends with it."""
        whole_enough = whole or len(text) > MAX_HELD
        self._held = text
        if not self._begun:
            if not whole_enough and (_MAYBE_MARK.fullmatch(text) or _FENCE.match(text)):
                return
            mark, text = self._line_begins(text)
            self._begun, self._held = True, text
            yield mark
        if self._verbatim:
            yield self._painted(text)
            self._held = ""
        else:
            yield from self._inline(text, whole)

    def _line_begins(self, text: str) -> tuple[str, str]:
        """Return what is shown for the mark with which the line begins, and the rest of the line."""
        fence = _FENCE.match(text)
        if self._fence:
            self._verbatim = True
            if fence is not None and fence[1].startswith(self._fence) and not text[fence.end() :].strip():
                self._fence, self._paints = "", (self._style.dim,)
                return "", _RULE
            self._paints = (self._style.code,)
            return "", text
        if fence is not None and "`" not in text[fence.end() :]:
            self._fence, self._verbatim, self._paints = fence[1], True, (self._style.dim,)
            return "", f"{_RULE} {text[fence.end() :].strip()}".rstrip()
        if _RULE_LINE.fullmatch(text):
            self._verbatim, self._paints = True, (self._style.dim,)
            return "", _RULE
        if _TABLE.match(text):
            self._verbatim = True
            return "", text
        if mark := _HEADING.match(text):
            self._paints = (self._style.bold,)
            return "", text[mark.end() :]
        if mark := _QUOTE.match(text):
            return self._style.dim("│ " * mark[0].count(">")), text[mark.end() :]
        if mark := _BULLET.match(text):
            return f"{mark[1]}• ", text[mark.end() :]
        return "", text

    def _inline(self, text: str, whole: bool) -> Iterator[str]:
        shown, self._held = self._spans(text, whole, self._paints, 0)
        yield from shown

    def _painted(self, text: str, *more: Paint) -> str:
        for paint in (*more, *self._paints):
            text = paint(text)
        return text

    def _spans(self, text: str, whole: bool, paints: tuple[Paint, ...], depth: int) -> tuple[list[str], str]:
        """Return the text painted, and the end of it that waits for more."""
        shown: list[str] = []
        at = 0
        while (mark := _MARK.search(text, at)) is not None:
            begin = mark.start()
            self._show(shown, text[at:begin], paints)
            span = self._span(text, begin, whole, paints, depth)
            if span is None:
                return shown, text[begin:]
            painted, at = span
            shown.append(painted)
            self._before = text[at - 1]
        self._show(shown, text[at:], paints)
        return shown, ""

    def _show(self, shown: list[str], text: str, paints: tuple[Paint, ...]) -> None:
        if text:
            shown.append(_paint(text, paints))
            self._before = text[-1]

    def _span(
        self, text: str, begin: int, whole: bool, paints: tuple[Paint, ...], depth: int
    ) -> tuple[str, int] | None:
        """Return what is shown for the mark here, and where the text goes on; None when more text must decide."""
        may_wait = not whole and len(text) - begin <= MAX_HELD
        sign = text[begin]
        if sign == "\\":
            escaped = _ESCAPED.match(text, begin)
            if escaped is None and may_wait and begin + 1 == len(text):
                return None
            return (_paint(escaped[1], paints), escaped.end()) if escaped else (_paint(sign, paints), begin + 1)
        if sign == "!" and text[begin + 1 : begin + 2] != "[":
            return None if begin + 1 == len(text) and may_wait else (_paint(sign, paints), begin + 1)
        if sign in "![":
            return self._link(text, begin, may_wait, paints)
        return self._run(text, begin, may_wait, paints, depth)

    def _link(self, text: str, begin: int, may_wait: bool, paints: tuple[Paint, ...]) -> tuple[str, int] | None:
        link = _LINK.match(text, begin)
        if link is None:
            if may_wait and _MAYBE_LINK.fullmatch(text, begin):
                return None
            return _paint(text[begin], paints), begin + 1
        name, url = link[1].replace("**", "").replace("`", ""), link[2]
        where = "" if name == url else self._style.dim(f"({url})")
        return f"{_paint(name or url, paints)} {where}".rstrip() if name else _paint(url, paints), link.end()

    def _run(
        self, text: str, begin: int, may_wait: bool, paints: tuple[Paint, ...], depth: int
    ) -> tuple[str, int] | None:
        """Read a run of backticks, stars or underscores, and what it encloses."""
        sign = text[begin]
        end = begin + 1
        while end < len(text) and text[end] == sign:
            end += 1
        if end == len(text) and may_wait:
            return None
        run = text[begin:end]
        code = sign == "`"
        closing = _CLOSING.get(run)
        opens = code or (end < len(text) and not text[end].isspace() and self._may_begin(sign))
        if closing is None or not opens or depth >= _MAX_DEPTH:
            return _paint(run, paints), end
        close = closing.search(text, end, end + MAX_HELD)
        if close is None or (close.end() == len(text) and may_wait):
            return None if may_wait else (_paint(run, paints), end)
        inner = text[end : close.start()]
        if code:
            return _paint(inner.strip() or inner, (self._style.code, *paints)), close.end()
        paint = self._style.italic if len(run) == 1 else self._style.bold
        self._before = ""
        shown, _ = self._spans(inner, True, paints if paint in paints else (paint, *paints), depth + 1)
        return "".join(shown), close.end()

    def _may_begin(self, sign: str) -> bool:
        return not (self._before == sign or _INSIDE.match(self._before))


def _paint(text: str, paints: tuple[Paint, ...]) -> str:
    for paint in paints:
        text = paint(text)
    return text
