"""One call on its way through a child."""

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Sequence
from typing import Protocol

from pentad.contracts.tools import Artifact, OutcomeKind, ToolOutcome
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.services.tool_worker.tool_value import MAX_ARTIFACT_BYTES

_MAX_TIMER_S = 1_000_000.0
"""Seconds; event loops refuse timers that are set much later."""


class Home(Protocol):
    """The part of a child process that a call uses."""

    def give_up(self, call: "ChildCall", /) -> None:
        """Cancels a call that nobody waits for."""


class ChildCall:
    """A call, waiting for a child or in one. ``future`` becomes its outcome, or is cancelled with the caller."""

    __slots__ = ("child", "files", "future", "invocation", "number", "on_progress", "started", "threaded", "timer")

    def __init__(
        self, loop: AbstractEventLoop, number: int, invocation: ToolInvocation, threaded: bool, on_progress: OnProgress
    ) -> None:
        self.number = number
        self.invocation = invocation
        self.threaded = threaded
        self.on_progress = on_progress
        self.future: asyncio.Future[ToolOutcome] = loop.create_future()
        self.child: Home | None = None
        self.files = bytearray()
        """Bytes of the files that it has made."""
        self.started = 0.0
        self.timer: TimerHandle | None = None

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more, though its code may still run."""
        return self.future.done()

    def begin(self, child: Home, loop: AbstractEventLoop) -> None:
        """Start the call's time limit."""
        self.child = child
        self.started = loop.time()
        self.timer = loop.call_later(min(self.invocation.timeout_s, _MAX_TIMER_S), self._expire)

    def add_bytes(self, data: bytes) -> None:
        """Add bytes of its files; of a call that sends more than it may, no more."""
        if not self.over and len(self.files) < MAX_ARTIFACT_BYTES:
            self.files += data

    def finish(self, kind: OutcomeKind, text: str, files: Sequence[tuple[str, str, int]] = ()) -> None:
        """Sets the outcome, once. ``files``: name, media type and size of each, in the order of their bytes."""
        self.stop_timer()
        if self.over:
            return
        took = round((self.future.get_loop().time() - self.started) * 1000) if self.child else 0
        made, at = list[Artifact](), 0
        for name, media_type, size in files:
            made.append(Artifact(bytes(self.files[at : at + size]), name, media_type))
            at += size
        self.files.clear()
        self.future.set_result(ToolOutcome(kind, text, took, made=tuple(made)))

    def lose(self, how: str, *, guilty: bool) -> None:
        """Report that the call's process is gone. A call that was alone in it has brought it down; of several, nobody
        knows which one did.
        """
        title = self.invocation.title
        if guilty:
            self.finish("crashed", f"{title} brought its process down: {how}")
        else:
            self.finish("interrupted", f"the process that {title} ran in was lost: {how}")

    def stop_timer(self) -> None:
        """Stop the call's time limit."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _expire(self) -> None:
        limit = f"{self.invocation.timeout_s:g} s"
        self.finish("timeout", f"{self.invocation.title} took longer than its time limit of {limit}")
        if self.child is not None:
            self.child.give_up(self)
