"""A line that says what is being waited for, and for how long."""

import asyncio
import time
from typing import Self, TextIO

from pentad.cli.render import one_line, width

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK_S = 0.1
CLEAR = "\r\x1b[K"


class Spinner:
    """A spinner with a label and the seconds since it began. Silent unless ``live``: use it as a context."""

    def __init__(self, stream: TextIO, live: bool) -> None:
        self._stream = stream
        self._live = live
        self._label = ""
        self._since = 0.0
        self._drawn = False
        self._held = False
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._live:
            self._ticker = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        self.show("")

    def show(self, label: str, since: float | None = None) -> None:
        """Say what is waited for, from now on or since a time of the monotonic clock; nothing when empty."""
        if label != self._label:
            self._label, self._since = label, time.monotonic() if since is None else since
        if not label:
            self.clear()

    def hold(self, held: bool) -> None:
        """While held nothing is drawn: a line of text is only half written."""
        self._held = held

    def clear(self) -> None:
        """Make room for a line of output; the next tick draws again."""
        if self._drawn:
            self._stream.write(CLEAR)
            self._stream.flush()
            self._drawn = False

    async def _tick(self) -> None:
        turns = 0
        while True:
            if self._label and not self._held:
                self._draw(turns)
            turns += 1
            await asyncio.sleep(TICK_S)

    def _draw(self, turns: int) -> None:
        text = one_line(waiting_line(turns, self._label, self._since), width() - 1)
        self._stream.write(CLEAR + text)
        self._stream.flush()
        self._drawn = True


def waiting_line(turns: int, label: str, since: float) -> str:
    """Return the line of waiting: a spinner after ``turns`` turns, the label, seconds since ``since`` (monotonic)."""
    return f"{FRAMES[turns % len(FRAMES)]} {label} {int(time.monotonic() - since)} s"
