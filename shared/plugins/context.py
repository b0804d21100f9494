"""What a tool may know about the call that it serves."""

import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Report = Callable[[str, float | None], None]
"""Takes a progress message and the fraction done. May be called from any thread; never blocks."""


def _unheard(message: str, fraction: float | None) -> None:
    """Nobody listens: the context was made by a test or outside of a call."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call being served. Annotate a parameter with it and it is filled in; the model never sees it."""

    tool_call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one call: give it to systems that drop repeats."""
    attempt: int = 1
    tenant_id: str = "default"
    user_id: str | None = None
    session_id: str = ""
    task_id: str = ""
    deadline: datetime | None = None
    """When the whole turn must be over, with time zone; None when nobody set one."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata of the user's message whose turn the call belongs to: texts of the product's own."""
    report: Report = field(default=_unheard, repr=False, compare=False)

    def progress(self, message: str, fraction: float | None = None) -> Awaitable[None]:
        """Tells the clients how far the call is. ``fraction`` is from 0 to 1; not durable, may be dropped.

        It is told when this returns. Plain functions call it as it is, async ones may await it.
        """
        self.report(str(message), _between(fraction))
        return _TOLD

    def progress_sync(self, message: str, fraction: float | None = None) -> None:
        """The same, under the name that it had for plain functions."""
        self.report(str(message), _between(fraction))


class _Told:
    """Awaited as often as one likes."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_TOLD = _Told()


def _between(fraction: float | None) -> float | None:
    if fraction is None or math.isnan(fraction):
        return None
    return min(1.0, max(0.0, float(fraction)))
