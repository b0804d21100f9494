"""A terminal with a prompt at the bottom that stays while text comes in above it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.renderer import CPR_Support

from pentad.cli.history import Kept
from pentad.cli.lines import Tag
from pentad.cli.render import one_line
from pentad.cli.spinner import TICK_S, waiting_line
from pentad.cli.unfinished import UnfinishedLines
from pentad.cli.wrapping import wrapped

_BELOW = 4
"""Rows that an unfinished line leaves to the rest of the screen."""


class Screen:
    """Whole lines go into the terminal above the prompt; the unfinished one and what is waited for stand between.

    A context. ``interrupted`` is called for every Ctrl-C.
    """

    def __init__(self, out: TextIO, prompt: str, history: Path, interrupted: Callable[[], None]) -> None:
        self._out = out
        self._prompt = to_formatted_text(ANSI(prompt))
        self._session: PromptSession[str] = PromptSession(
            history=Kept(history), key_bindings=prompt_keys(interrupted), enable_suspend=True
        )
        # Asking terminals for the cursor's place is of use to menus alone; those that do not answer get a warning.
        self._session.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED
        self._unfinished = UnfinishedLines()
        self._label = ""
        self._since = 0.0
        self._held = False
        self._turns = 0
        self._left = False
        self._keys_kept = ExitStack()
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._keys_kept.enter_context(keys_kept())
        self._ticker = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        self._keys_kept.close()
        self._above(self._unfinished.finished(self._columns()))

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines that the person types, until Ctrl-D or ``leave``."""
        while not self._left:
            try:
                yield await self._session.prompt_async(self._below)
            except EOFError:
                return

    def leave(self) -> None:
        """End ``lines``."""
        self._left = True
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=EOFError())

    def leave_when_empty(self) -> None:
        """End ``lines``, unless something is being typed."""
        if not self._session.default_buffer.text:
            self.leave()

    def forget(self) -> bool:
        """Empty the line being typed; whether there was anything."""
        typed = self._session.default_buffer.text
        self._session.default_buffer.reset()
        return bool(typed)

    # What a view writes to

    def put(self, speaker: str, text: str, tag: Tag) -> None:
        """Text for above the prompt; it stands there for good once its line is whole. See ``Lines``."""
        self._above(self._unfinished.put(speaker, text, tag, self._columns()))

    def note(self, line: str) -> None:
        """A line of its own; an unfinished one goes on below it."""
        self._above(line.split("\n"))

    def _above(self, lines: Sequence[str]) -> None:
        app, columns = self._session.app, self._columns()
        if lines:
            if app.is_running:
                app.renderer.erase()
            self._out.write("".join(f"{row}\n" for line in lines for row in wrapped(line, columns)))
            self._out.flush()
        app.invalidate()

    def _columns(self) -> int:
        return self._session.app.output.get_size().columns

    def show(self, label: str, since: float | None = None) -> None:
        """Say what is waited for, and for how long; nothing when empty."""
        if label != self._label:
            self._label, self._since = label, time.monotonic() if since is None else since
            self._session.app.invalidate()

    def hold(self, held: bool) -> None:
        """While held nothing is said: a line of text is only half written."""
        self._held = held

    def clear(self) -> None:
        """Remove the line of waiting, so that text can be written."""

    # What stands at the bottom

    def _below(self) -> StyleAndTextTuples:
        if self._session.app.is_done:  # what was typed stays where it is, the rest moves on
            return self._prompt
        size = self._session.app.output.get_size()
        unfinished = self._unfinished.rows(size.columns)[-max(1, size.rows - _BELOW) :]
        rows = [*split_lines(to_formatted_text(ANSI("\n".join(unfinished))))] if unfinished else []
        if self._label and not self._held:
            rows.append([("", one_line(waiting_line(self._turns, self._label, self._since), size.columns - 1))])
        return [*(part for row in rows for part in (*row, ("", "\n"))), *self._prompt]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._label and not self._held:
                self._turns += 1
                self._session.app.invalidate()


def prompt_keys(interrupted: Callable[[], None]) -> KeyBindings:
    """Return the keys of a prompt beside those that edit its line. ``interrupted`` is called for every Ctrl-C."""
    keys = KeyBindings()

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _(_: KeyPressEvent) -> None:
        interrupted()

    @keys.add("escape", "enter")
    def _(press: KeyPressEvent) -> None:
        """Alt-Enter: a new line of the same message."""
        press.current_buffer.insert_text("\n")

    return keys


@contextmanager
def keys_kept() -> Iterator[None]:
    """Keep keys that are pressed while no prompt stands for the next prompt, without showing them.

    In a terminal's usual mode its driver takes them: Ctrl-D would be lost, and letters be shown twice. Ctrl-C stays a
    signal.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
