"""An event loop with a virtual clock: nothing sleeps, and a scheduler chooses what happens next."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any

EPOCH_MS = 1_900_000_000_000
"""Start of the virtual clock, in milliseconds since the epoch."""
Tasks = dict[asyncio.Task[Any], None]
owner: ContextVar[Tasks | None] = ContextVar("owner", default=None)
"""Set of the tasks of the simulated process that runs now; None outside of such processes."""


class _Idle(selectors.SelectSelector):
    """A selector that calls the scheduler instead of waiting when the loop has nothing ready."""

    on_idle: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.on_idle(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A virtual loop. ``on_idle(seconds to the next timer or None)`` advances it or makes something ready."""

    def __init__(self, on_idle: Callable[[float | None], None]) -> None:
        selector = _Idle()
        selector.on_idle = on_idle
        super().__init__(selector)
        self.clock = 0.0
        self.skew_ms = 0
        """Milliseconds by which the server's clock is ahead of the true time; a step changes it."""
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda *_: None)  # killed processes leave exceptions that nobody fetches

    def time(self) -> float:
        return self.clock

    @property
    def now_ms(self) -> int:
        """Return the virtual time as the scripts see it."""
        return EPOCH_MS + int(self.clock * 1000) + self.skew_ms

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work at once: threads would not be deterministic."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    tasks = owner.get()
    if tasks is not None:
        tasks[task] = None
        task.add_done_callback(lambda done: tasks.pop(done, None))
    return task
