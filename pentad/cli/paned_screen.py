"""A whole terminal for a conversation: what was said, the prompt below it, and a pane beside both."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.layout import BufferControl, ConditionalContainer, HSplit, Layout, UIContent, UIControl, VSplit
from prompt_toolkit.layout import Window as Area
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import BeforeInput

from pentad.cli.history import Kept
from pentad.cli.lines import Tag
from pentad.cli.render import one_line
from pentad.cli.screen import prompt_keys
from pentad.cli.side_pane import PaneKey, SidePane
from pentad.cli.spinner import TICK_S, waiting_line
from pentad.cli.unfinished import UnfinishedLines
from pentad.cli.wrapping import wrapped

MIN_COLUMNS = 120
"""Columns from which on there is room for the pane."""
_PANE_SHARE, _MAX_PANE = 3, 60
"""The part of the columns that the pane gets, one in so many, and the most of it."""
_MAX_LINES = 5_000
"""Lines of the conversation that are kept."""
_MAX_PROMPT_ROWS = 8
_KEYS: dict[str, PaneKey] = {"a": "approve", "r": "refuse", "e": "edit", "enter": "say", "x": "cancel"}


class PanedScreen:
    """A conversation beside a pane. What was said is written into the terminal at the end, so that it stays there.

    A context, with the methods of `Screen`. ``interrupted`` is called for every Ctrl-C.
    """

    def __init__(
        self, out: TextIO, prompt: str, history: Path, interrupted: Callable[[], None], pane: SidePane
    ) -> None:
        self._out, self._prompt, self._pane = out, prompt, pane
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._unfinished = UnfinishedLines()
        self._label, self._since, self._held, self._turns = "", 0.0, False, 0
        self._up = 0
        """Rows by which the person has scrolled up."""
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._buffer = Buffer(history=Kept(history), accept_handler=self._accept, multiline=False)
        self._input = Area(
            BufferControl(self._buffer, input_processors=[BeforeInput(ANSI(prompt))]),
            height=Dimension(min=1, max=_MAX_PROMPT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
        )
        self._side = Area(_Rows(self._pane_rows, self._pane_keys()), width=self._pane_columns)
        self._app: Application[None] = self._application(interrupted)
        self._tasks: list[asyncio.Task[None]] = []

    def _application(self, interrupted: Callable[[], None]) -> Application[None]:
        said = HSplit([Area(_Rows(self._said_rows)), Area(_Rows(self._state_rows), height=1), self._input])
        beside = VSplit([Area(width=1, char="│"), self._side])
        wide = Condition(lambda: self._size()[0] >= MIN_COLUMNS)
        app: Application[None] = Application(
            layout=Layout(VSplit([said, ConditionalContainer(beside, wide)]), focused_element=self._input),
            key_bindings=merge_key_bindings([prompt_keys(interrupted), self._bindings()]),
            full_screen=True,
            enable_page_navigation_bindings=False,
            before_render=lambda _: self._keep_focus(),
        )
        return app

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tick())]
        return self

    async def __aexit__(self, *_: object) -> None:
        running, ticking = self._tasks
        ticking.cancel()
        if self._app.is_running and not self._app.is_done:
            self._app.exit()
        await asyncio.gather(running, ticking, return_exceptions=True)
        self._lines.extend(self._unfinished.finished(self._columns()))
        self._out.write("".join(f"{line}\n" for line in self._lines))
        self._out.flush()
        running.result()  # raises what has ended the screen, if not the person

    async def _run(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False)
        finally:
            self._typed.put_nowait(None)

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines that the person types, until Ctrl-D or ``leave``."""
        while (line := await self._typed.get()) is not None:
            yield line

    def leave(self) -> None:
        """End ``lines``."""
        self._typed.put_nowait(None)

    def leave_when_empty(self) -> None:
        """End ``lines``, unless something is being typed."""
        if not self._buffer.text:
            self.leave()

    def forget(self) -> bool:
        """Empty the line being typed; whether there was anything."""
        typed = self._buffer.text
        self._buffer.reset()
        return bool(typed)

    # What a view writes to

    def put(self, speaker: str, text: str, tag: Tag) -> None:
        """Text of a speaker; see ``Lines``."""
        self._say(self._unfinished.put(speaker, text, tag, self._columns()))

    def note(self, line: str) -> None:
        """A line of its own; an unfinished one goes on below it."""
        self._say(line.split("\n"))

    def _say(self, lines: Sequence[str]) -> None:
        self._lines.extend(lines)
        if self._up:  # what the person reads stays where it is
            self._up += sum(len(_rows_of(line, self._columns())) for line in lines)
        self._app.invalidate()

    def show(self, label: str, since: float | None = None) -> None:
        """Say what is waited for, and for how long; nothing when empty."""
        if label != self._label:
            self._label, self._since = label, time.monotonic() if since is None else since
            self._app.invalidate()

    def hold(self, held: bool) -> None:
        """While held nothing is said: a line of text is only half written."""
        self._held = held

    def clear(self) -> None:
        """Remove the line of waiting, so that text can be written."""

    def redraw(self) -> None:
        """Draw again: the pane has something else."""
        self._app.invalidate()

    # What stands where

    def _said_rows(self, columns: int, rows: int) -> list[str]:
        """Return the rows of the conversation that are to be seen; the last ones stand at the bottom."""
        found = self._unfinished.rows(columns)[::-1]
        for line in reversed(self._lines):
            if len(found) >= rows + self._up:
                break
            found += reversed(_rows_of(line, columns))
        self._up = max(0, min(self._up, len(found) - rows))
        shown = found[self._up : self._up + rows][::-1]
        return [*[""] * (rows - len(shown)), *shown]

    def _state_rows(self, columns: int, rows: int) -> list[str]:
        if self._up:
            return [one_line("↓ more below: PageDown", columns)]
        if self._label and not self._held:
            return [one_line(waiting_line(self._turns, self._label, self._since), columns - 1)]
        return [""]

    def _pane_rows(self, columns: int, rows: int) -> list[str]:
        return self._pane.rows(columns, rows, focused=self._app.layout.has_focus(self._side))

    def _pane_columns(self) -> Dimension:
        return Dimension.exact(min(_MAX_PANE, self._size()[0] // _PANE_SHARE))

    def _size(self) -> tuple[int, int]:
        size = self._app.output.get_size()
        return size.columns, size.rows

    def _columns(self) -> int:
        columns, _ = self._size()
        return columns if columns < MIN_COLUMNS else columns - 1 - min(_MAX_PANE, columns // _PANE_SHARE)

    def _keep_focus(self) -> None:
        """Give the prompt the keys when the pane has gone, because the terminal is narrow now."""
        if self._size()[0] < MIN_COLUMNS and self._app.layout.has_focus(self._side):
            self._app.layout.focus(self._input)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._label and not self._held:
                self._turns += 1
                self._app.invalidate()

    # Keys

    def _accept(self, buffer: Buffer) -> bool:
        self._up = 0
        self._say(f"{self._prompt}{buffer.text}".split("\n"))
        self._typed.put_nowait(buffer.text)
        return False

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-d", filter=Condition(lambda: not self._buffer.text))
        def _(_: KeyPressEvent) -> None:
            self.leave()

        @keys.add("tab")
        @keys.add("s-tab")
        def _(press: KeyPressEvent) -> None:
            to_pane = press.app.layout.has_focus(self._input) and self._size()[0] >= MIN_COLUMNS
            press.app.layout.focus(self._side if to_pane else self._input)
            if to_pane:
                self._pane.begin()

        @keys.add("pageup")
        def _(_: KeyPressEvent) -> None:
            self._up += max(1, self._size()[1] // 2)

        @keys.add("pagedown")
        def _(_: KeyPressEvent) -> None:
            self._up = max(0, self._up - max(1, self._size()[1] // 2))

        return keys

    def _pane_keys(self) -> KeyBindings:
        keys = KeyBindings()
        for name, by in (("up", -1), ("k", -1), ("down", 1), ("j", 1)):
            keys.add(name)(lambda _, by=by: self._pane.move(by))
        for name, key in _KEYS.items():
            keys.add(name)(lambda _, key=key: self._press(key))
        return keys

    def _press(self, key: PaneKey) -> None:
        """Put the line that a key of the pane stands for into the prompt. What stood there is kept in the history."""
        line = self._pane.line_for(key)
        if line is None:
            return
        self._buffer.reset(append_to_history=bool(self._buffer.text))
        self._buffer.text = line
        self._buffer.cursor_position = len(line)
        self._app.layout.focus(self._input)


class _Rows(UIControl):
    """Rows that are made for the place that they get."""

    def __init__(self, make: Callable[[int, int], list[str]], keys: KeyBindings | None = None) -> None:
        self._make, self._keys = make, keys

    def create_content(self, width: int, height: int) -> UIContent:
        rows = [_drawn(row) for row in self._make(width, height)]
        return UIContent(get_line=lambda number: rows[number], line_count=len(rows), show_cursor=False)

    def is_focusable(self) -> bool:
        return self._keys is not None

    def get_key_bindings(self) -> KeyBindings | None:
        return self._keys


@lru_cache(maxsize=1024)
def _rows_of(line: str, columns: int) -> tuple[str, ...]:
    return tuple(wrapped(line, columns))


@lru_cache(maxsize=1024)
def _drawn(row: str) -> StyleAndTextTuples:
    return to_formatted_text(ANSI(row))
