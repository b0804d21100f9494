"""The port that handles the entries of a consumer, its circuit breaker, and how often it tries."""

import logging
from abc import abstractmethod
from collections import deque
from enum import Enum
from functools import cached_property
from typing import Protocol

from pentad.contracts.dead_letters import DeadLetter
from pentad.shared.work.entry import Done, Entry

log = logging.getLogger(__name__)

ERRORS, ACTORS = 20, 5
"""So many errors in a row, over so many actors or entries, are not the matter of one of them."""
PROBE_S = 2.0
"""How often one entry is tried while the rest waits."""


class Breaker:
    """Errors in a row of one handler. Open: nothing is counted or given up, and one entry at a time is tried."""

    def __init__(self) -> None:
        self._row: deque[str] = deque(maxlen=ERRORS)
        self.trouble: str | None = None
        """Why nothing more is taken, for readiness; None while all is well."""

    @property
    def open(self) -> bool:
        """Whether what fails is to be handed back, untouched and uncounted."""
        return self.trouble is not None

    def failed(self, name: str, reason: str) -> None:
        """Another error. ``name``: of the actor or entry that it happened to."""
        self._row.append(name)
        if not self.open and len(self._row) == ERRORS and len(set(self._row)) >= ACTORS:
            self.trouble = f"the last {ERRORS} attempts failed, so one entry at a time is tried: {reason}"
            log.error("%s", self.trouble)

    def succeeded(self) -> None:
        """An entry was handled to its end."""
        self._row.clear()
        if self.open:
            self.trouble = None
            log.warning("an entry was handled: all are taken again")


MAX_STARTS = 20
"""Starts without an outcome before an entry is set aside (law 8)."""
MAX_FAILURES = 5
"""Errors that a handler let through before the entry is set aside (law 8)."""


class SetAside(Enum):
    """The outcome of setting an entry aside."""

    NOTHING = "nothing"
    """The handler has written nothing, for nothing waits for the entry: the caller writes the dead letter."""
    BURIED = "buried"
    """The dead letter was written and the entry acknowledged."""
    ENDED = "ended"
    """The entry is done with; what was wrong has been set aside and counted by itself."""


class Handler(Protocol):
    """Handles the entries of a stream."""

    @cached_property
    def breaker(self) -> Breaker:
        """The circuit breaker that counts this handler's errors in a row."""
        return Breaker()

    @property
    def trouble(self) -> str | None:
        """The reason why this handler cannot work now, for readiness; None while all is well."""
        return self.breaker.trouble

    @abstractmethod
    async def handle(self, entry: Entry) -> Done:
        """Handle one entry. ``PoisonError`` sets it aside; ``OutageError`` leaves it pending and counts nothing."""

    @abstractmethod
    async def hand_back(self, entries: list[Entry]) -> None:
        """Give back entries that were read but not begun, so that another worker can take them at once."""

    async def set_aside(self, entry: Entry, letter: DeadLetter) -> SetAside:
        """Write an entry's dead letter and acknowledge it together with what ends the work that waits for it.

        May be repeated.
        """
        return SetAside.NOTHING
