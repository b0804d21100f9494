"""What dies at one of its writes, for stores that a test kills."""

from collections.abc import Callable
from typing import Any


class KilledError(BaseException):
    """Stands for the end of the process: nothing that handles errors takes notice of it."""


class Dying:
    """Dies at its n-th write: before it, or after it and before anybody is told."""

    left = 0
    """Which write from now on is the last; 0: none."""
    after = False

    async def at(self, write: Callable[[], Any]) -> None:
        """A write, or the end."""
        self.left -= 1
        if self.left == 0 and not self.after:
            raise KilledError
        await write()
        if self.left == 0:
            raise KilledError
