"""An event loop in which time is a number: nothing sleeps, and what happens next is for a scheduler to say."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any

EPOCH_MS = 1_900_000_000_000
"""The virtual clock's beginning, ms since the epoch."""
Tasks = dict[asyncio.Task[Any], None]
owner: ContextVar[Tasks | None] = ContextVar("owner", default=None)
"""Where tasks of the simulated process that runs now are entered; None for what belongs to none."""


class _Idle(selectors.SelectSelector):
    """Asked by the loop when it has nothing ready: hands over to the scheduler instead of waiting."""

    on_idle: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.on_idle(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """``on_idle(seconds until the next timer, or None)`` must advance ``clock`` or make something ready."""

    def __init__(self, on_idle: Callable[[float | None], None]) -> None:
        selector = _Idle()
        selector.on_idle = on_idle
        super().__init__(selector)
        self.clock = 0.0
        self.skew_ms = 0
        """How far the server's clock is ahead of the time that really passes; a step changes it."""
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda *_: None)  # killed processes leave exceptions that nobody fetches

    def time(self) -> float:
        return self.clock

    @property
    def now_ms(self) -> int:
        """The virtual time as the scripts see it."""
        return EPOCH_MS + int(self.clock * 1000) + self.skew_ms

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Threads would not be deterministic: the work is done at once."""
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
