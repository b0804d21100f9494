"""What a service is to whatever runs it: `python -m services.X`, `pentad serve` or `pentad up`."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


class RunnableService(Protocol):
    """One of the six. Built by its composition root without I/O; everything happens in ``start``."""

    name: str

    async def start(self) -> None:
        """Begin to consume. Waits for the stores it needs, with backoff, and logs what it waits for."""

    async def stop(self) -> None:
        """Stop reading, finish or hand back what is in work, close."""

    def checks(self) -> Mapping[str, str | None]:
        """Readiness by name: None is good, a text says what is wrong. Cheap; asked often."""

    def alive(self) -> bool:
        """False once a part that should run for ever has died: the process is to be restarted."""


@runtime_checkable
class HasNotes(Protocol):
    """A service that has something to say to whoever looks after it, although it serves."""

    def notes(self) -> Mapping[str, str]:
        """What readiness shows beside the checks, by name."""


@runtime_checkable
class Announcing(Protocol):
    """A service that has something to say to whoever starts it."""

    about: str
    """One line, printed before it is said to be ready."""
