"""What a consumer asks of whoever handles its entries, and how often it tries."""

from abc import ABC, abstractmethod
from enum import Enum
from functools import cached_property

from pentad.contracts.dead_letters import DeadLetter
from pentad.shared.work.breaker import Breaker
from pentad.shared.work.entry import Done, Entry

MAX_STARTS = 20
"""Starts without an outcome before an entry is set aside (law 8)."""
MAX_FAILURES = 5
"""Errors that a handler let through before the entry is set aside (law 8)."""


class SetAside(Enum):
    """What a handler has done with an entry that is to be set aside."""

    NOTHING = "nothing"
    """Nothing waits for it, and nothing was written: whoever asked writes the dead letter."""
    BURIED = "buried"
    """The dead letter was written and the entry acknowledged."""
    ENDED = "ended"
    """The entry is done with; what was wrong has been set aside and counted by itself."""


class Handler(ABC):
    """What is done with the entries of a stream."""

    @cached_property
    def breaker(self) -> Breaker:
        """Its errors in a row."""
        return Breaker()

    @property
    def trouble(self) -> str | None:
        """What keeps it from its work now, for readiness; None while all is well."""
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
