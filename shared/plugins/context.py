"""The context of a tool call: the facts of the call that its tool may read."""

import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Report = Callable[[str, float | None], None]
"""Takes a progress message and the fraction done. May be called from any thread; never blocks."""


def _ignore(message: str, fraction: float | None) -> None:
    """Ignore progress: a test made the context, or there is no call."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call being served. A parameter that is annotated with it is filled in, and the model never sees it."""

    tool_call_id: str = ""
    idempotency_key: str = ""
    """A key that is the same for every attempt of one call: give it to systems that drop repeats."""
    attempt: int = 1
    tenant_id: str = "default"
    user_id: str | None = None
    session_id: str = ""
    task_id: str = ""
    deadline: datetime | None = None
    """The time at which the whole turn must be over, with time zone; None when none was set."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The metadata of the user's message whose turn the call belongs to: texts that the product itself sets."""
    report: Report = field(default=_ignore, repr=False, compare=False)
    as_of: datetime | None = None
    """The time as of which the task sees the memory, because it is a fork of another; None for all other tasks."""

    def progress(self, message: str, fraction: float | None = None) -> Awaitable[None]:
        """Tell the clients how far the call is. ``fraction`` is from 0 to 1; progress is not durable and may be
        dropped.

        The clients are told when this returns. Plain functions call it as it is, async ones may await it.
        """
        self.report(str(message), _clamped(fraction))
        return _DONE

    def progress_sync(self, message: str, fraction: float | None = None) -> None:
        """Tell the clients how far the call is, under the name that this had for plain functions."""
        self.report(str(message), _clamped(fraction))


class _Done:
    """An awaitable that is always done, and may be awaited any number of times."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


def _clamped(fraction: float | None) -> float | None:
    if fraction is None or math.isnan(fraction):
        return None
    return min(1.0, max(0.0, float(fraction)))
