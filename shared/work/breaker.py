"""Stops a handler that fails everything: else it empties its stream into the dead letters, entry after entry."""

import logging
from collections import deque

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
