"""The way to Redis: one client, scripts by their digest, and concurrent commands sent together.

Commands that are issued while others are under way leave in one pipeline: under load a command costs a fraction of a
round trip, and alone it waits for nothing. Nothing here is retried by itself: a lost reply is not a lost command
(hazard 13), so only the caller knows whether sending again is safe. `guarded` is for those who know.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from time import monotonic
from typing import Any, TypeVar

from redis.exceptions import (
    BusyLoadingError,
    ClusterError,
    ConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from contracts.ids import rfc3339
from shared.cancelling import cancel_all
from shared.errors import OutageError
from shared.state.wire import Wire, connect, packed

log = logging.getLogger(__name__)
T = TypeVar("T")
Argument = str | bytes | int | float

_OUTAGES = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, ClusterError, OSError)
_OUTAGE_WORDS = (
    "LOADING",
    "READONLY",
    "OOM",
    "MISCONF",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "BUSY ",
)
_BATCH = 256
_CLOCK_S = 5.0


def is_outage(error: BaseException) -> bool:
    """Whether an error says that Redis cannot serve now, rather than that the command was wrong."""
    if isinstance(error, ResponseError) and not isinstance(error, _OUTAGES):
        return str(error).startswith(_OUTAGE_WORDS) or "OOM command not allowed" in str(error)
    return isinstance(error, _OUTAGES)


class Script:
    """A Lua script of `shared/state/scripts`, known to the server by its digest."""

    def __init__(self, name: str, body: str) -> None:
        self.name = name
        self.body = body
        self.digest = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()


def _read_scripts() -> dict[str, Script]:
    folder = resources.files("shared.state") / "scripts"
    files = {f.name.removesuffix(".lua"): f.read_text() for f in folder.iterdir() if f.name.endswith(".lua")}
    library = files.pop("_lib")
    return {name: Script(name, library + body) for name, body in files.items()}


class Store:
    """Redis as the rest of Pentad sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis: Any = connect(url)
        """For commands that are not worth batching. Its errors are redis-py's; its types are unions of everything."""
        self._wire = Wire(url)
        self.scripts = _read_scripts()
        self._queue: list[tuple[asyncio.Future[Any], tuple[Argument, ...]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._clock = (0, float("-inf"))
        self.trouble: str | None = None
        """Why Redis did not serve when it was last asked; None when it did."""

    async def call(self, *command: Argument) -> Any:
        """Send one command, together with whatever else is ready to leave.

        Raises ``OutageError`` when Redis does not serve; then the command may or may not have been executed.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enqueue(future, command)
        return await future

    def send(self, *command: Argument) -> None:
        """Send a command and wait for nothing: for what may be lost. It keeps its place before later commands."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_ignore)
        self._enqueue(future, command)

    def _enqueue(self, future: asyncio.Future[Any], command: tuple[Argument, ...]) -> None:
        self._queue.append((future, command))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run a script. Raises ``OutageError`` as `call` does."""
        script = self.scripts[name]
        try:
            return await self.call("EVALSHA", script.digest, len(keys), *keys, *args)
        except NoScriptError:
            return await self.call("EVAL", script.body, len(keys), *keys, *args)

    async def clock(self) -> int:
        """The server's clock, in ms: the only clock that leases, timers and events go by."""
        seconds, micros = await self.call("TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        self._clock = (now, monotonic())
        return now

    async def now(self) -> str:
        """The server's clock as RFC 3339, for events: between two readings it goes on by our own."""
        read, at = self._clock
        passed = monotonic() - at
        return rfc3339(read + round(passed * 1000) if passed < _CLOCK_S else await self.clock())

    async def _send(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                await self._send_batch(batch)
        finally:
            self._sender = None

    async def _send_batch(self, batch: list[tuple[asyncio.Future[Any], tuple[Argument, ...]]]) -> None:
        try:
            replies = await self._wire.replies([packed(*map(_word, command)) for _, command in batch])
        except asyncio.CancelledError:
            for future, _ in batch:
                future.cancel()
            raise
        except Exception as error:
            replies = [error] * len(batch)
        for (future, _), reply in zip(batch, replies, strict=True):
            self._settle(future, reply)

    def _settle(self, future: asyncio.Future[Any], reply: Any) -> None:
        error: Exception | None = None
        if isinstance(reply, Exception):
            outage = is_outage(reply)
            error = OutageError(f"Redis does not serve now: {reply or type(reply).__name__}") if outage else reply
        self.trouble = str(error) if isinstance(error, OutageError) else None
        if future.done():
            return
        if error is None:
            future.set_result(reply)
        else:
            future.set_exception(error)

    async def close(self) -> None:
        """Close the connections; commands under way are cancelled."""
        if self._sender is not None:
            await cancel_all([self._sender])
        await self._wire.close()
        await self.redis.aclose()


def _word(argument: Argument) -> bytes:
    if isinstance(argument, bytes):
        return argument
    return argument.encode() if isinstance(argument, str) else repr(argument).encode()


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


async def guarded(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat something that is safe to repeat until Redis answers: reads, and scripts guarded by an id or a version."""
    pause = 0.05
    while True:
        try:
            return await attempt()
        except (OutageError, RedisError, OSError) as error:
            if not isinstance(error, OutageError) and not is_outage(error):
                raise
            log.warning("%s waits for Redis: %s", what, error)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, 1.0)
