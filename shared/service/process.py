"""A process that runs Pentad alone: its signals, of which one `Stop` is told, its event loop and garbage collector."""

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

_LEFTOVERS_S = 5.0
"""Seconds that threads may go on after the end of a process's work."""
_owned = False
"""Whether this process runs Pentad and nothing else."""


class StopAskedError(Exception):
    """The process was asked to end while something went on."""


class Stop:
    """The first signal asks for a graceful end, the second hurries it, the third ends the process where it stands."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def on_signal(self) -> None:
        """Take one more signal."""
        if self.hurried.is_set():
            os._exit(130)
        if self.asked.is_set():
            log.warning("hurrying: what does not stop at once is left to others")
            self.hurried.set()
        self.asked.set()

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of some work. Cancel it and raise ``StopAskedError`` when the process is to end first."""
        doing = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self.asked.wait())
        try:
            await asyncio.wait({doing, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise StopAskedError
            return doing.result()
        finally:
            await cancel_and_wait(asked, doing)


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks and wait until each has ended. Errors that they end with are not raised."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run_loop(main: Callable[[Stop], Awaitable[int]]) -> int:
    """Run ``main`` on a fast loop where there is one, with SIGTERM, SIGINT and SIGHUP told to its ``Stop``.

    For processes that end afterwards: 5 s after ``main`` the process is gone, whatever threads still hang in it.
    """
    own_process()
    code = 1
    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        code = runner.run(_listen_and_run(main))
    finally:
        _end_soon(code)
        runner.close()
    return code


def _end_soon(code: int) -> None:
    timer = threading.Timer(_LEFTOVERS_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


async def _listen_and_run(main: Callable[[Stop], Awaitable[int]]) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup ignores SIGHUP on purpose; SIGINT is ignored in a shell's background job, and we listen all the same.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.on_signal)
    return await main(stop)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def own_process() -> None:
    """Declare that this process runs Pentad and nothing else, so that `settle` may freeze what is in its memory."""
    global _owned
    _owned = True


def settle() -> None:
    """Collect garbage, and exempt all objects that remain from later collections. Blocks for 50 to 200 ms.

    Call it at the start. A full collection looks at all tracked objects and stops the process meanwhile; of some
    300,000 nearly all are modules, classes and schemas that are never freed. In somebody else's program it does
    nothing: that program's objects are freed.
    """
    if not _owned:
        return
    gc.collect()
    gc.freeze()


@contextmanager
def collections_deferred() -> Iterator[None]:
    """Let the garbage collector rest for a block that imports a service.

    Imports make 300,000 objects that stay, at which the collector looks again and again: a fifth of what a start costs.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
