"""Whether the other side's loop turns, as far as we know."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any

ANSWER_S = 1.0
"""How long a ping or a cancellation may stay unanswered."""


class Pulse:
    """One ping at a time and the time since it was sent."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: float | None = None

    @property
    def turns(self) -> bool:
        """False when a ping has waited too long."""
        return self._asked is None or self._loop.time() - self._asked < ANSWER_S * 0.9

    def ask(self) -> bool:
        """Whether a ping should be sent now; it then counts as sent."""
        if self._asked is not None:
            return False
        self._asked = self._loop.time()
        return True

    def answered(self) -> None:
        """The ping has come back."""
        self._asked = None

    def judge_later(self, seconds: float, verdict: Callable[..., None], *args: Any) -> None:
        """Calls ``verdict`` in two stages, so that answers are read in between even when our own loop was held up."""
        self._loop.call_later(seconds * 0.9, lambda: self._loop.call_later(seconds * 0.1, verdict, *args))
