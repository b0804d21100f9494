"""One Redis connection, used by one loop: commands leave together, replies come back in order, no task, no pool.

redis-py makes the connection (address, TLS, authentication); then its transport is given a protocol of ours, because
what redis-py and asyncio's streams add for a command costs more than the command (docs/decisions/0005).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from pentad.shared import metrics
from pentad.shared.keys import PROBE
from pentad.shared.store.redis_replies import Heard, RedisReplies
from pentad.shared.store.refusals import quit_after

TIMEOUT_S = 10.0
_FLUSH_S = 1.0
"""How long a connection that is closed waits for what was told to arrive."""
Word = str | bytes | int | float
"""A word of a command."""
_pack: Any = hiredis.pack_command  # whose stub knows of one word only
_PROBE = _pack(("DEL", PROBE))
"""Whether the server takes writes. A read would be answered as before by a primary that has become a replica."""


def connect(url: str, **options: Any) -> Redis:
    """A client for commands: no hidden retries, bounded waiting. Connects on first use."""
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": 2.0, "max_connections": 1000} | options
    return Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0), **options)


class Wire:
    """Connects on first use and again after an error; the caller repeats what is safe to repeat.

    Whatever is asked in one turn of the loop leaves in one write; nothing waits for the replies before it. A server
    that is not the primary any more is given up: behind the same address another may answer by now.
    """

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S, most_bytes: int | None = None) -> None:
        """``most_bytes``: of one reply; the connection is closed when there come more, with ``TooLargeReplyError``."""
        self._most_bytes = most_bytes
        self._pool: Any = connect(url, socket_timeout=timeout_s).connection_pool
        self._timeout_s = timeout_s
        self._line: RedisReplies | None = None
        self._quitting: set[RedisReplies] = set()
        """Connections of which nothing more is asked, and whose servers still owe answers."""
        self._opening: asyncio.Task[None] | None = None
        self._leaving: list[bytes] = []
        self._bound: list[Heard] = []
        """Replies of commands that may leave over this connection only, among those that wait to leave."""
        self._waiting: deque[Heard | None] = deque()
        self._asked_at = 0.0
        """Loop time at which the first was asked of those that wait."""
        self._watchdog: asyncio.TimerHandle | None = None
        self._told = False
        """Whether anything was ever told."""
        self.opened = 0
        """How many connections there have been."""

    @property
    def connected(self) -> bool:
        """Whether the connection is open, as far as we have heard."""
        return self._line is not None

    @property
    def silence(self) -> float:
        """Seconds for which Redis has left everything unanswered; 0 while nothing is asked."""
        if not self._waiting:
            return 0.0
        heard = self._line.heard_at if self._line is not None else 0.0
        return asyncio.get_running_loop().time() - max(self._asked_at, heard)

    def ask(self, *command: Word) -> Heard:
        """Send a command; its reply is awaited. A blocking one must block for less than the time-out.

        The future raises the server's refusal, or redis-py's error of the connection: then the command may have been
        executed all the same.
        """
        heard: Heard = asyncio.get_running_loop().create_future()
        self._post(command, heard)
        return heard

    def ask_on(self, connection: int, *command: Word) -> Heard:
        """Send a command over this connection, by its number in `opened`, or not at all.

        Raises ``ConnectionError`` when there is another by now, which may lead to a server that knows less.
        """
        if self._line is None or connection != self.opened:
            raise ConnectionError("the connection was replaced")
        heard = self.ask(*command)
        self._bound.append(heard)
        return heard

    def tell(self, *command: Word) -> None:
        """Send a command whose reply nobody wants. It keeps its place among the others.

        It waits one turn of the loop longer: what its caller asks at the end of its work leaves with it, in one write.
        """
        self._told = True
        self._post(command, None)

    async def ask_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Send several at once. Raises the first reply that is an error."""
        return await asyncio.gather(*(self.ask(*command) for command in commands))

    def _post(self, command: Sequence[Word], heard: Heard | None) -> None:
        if not command:
            raise ValueError("a command has at least one word")
        if not self._leaving:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._leave if heard is not None else self._leave_soon)
            if not self._waiting:
                self._asked_at = loop.time()
        self._leaving.append(_pack(tuple(command)))
        self._waiting.append(heard)

    def _leave_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._leave)

    def _leave(self) -> None:
        if self._line is not None:
            if self._line.to_be_probed():
                self._leaving.append(_PROBE)
                self._waiting.append(None)
            self._line.send(self._leaving)
            self._leaving = []
            self._bound.clear()
            if self._watchdog is None:
                self._watchdog = asyncio.get_running_loop().call_later(self._timeout_s, self._watch)
        elif self._leaving and self._opening is None:
            self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        try:
            connection = self._pool.make_connection()
            await connection.connect()
            self._line = RedisReplies(connection, self._waiting, self._lost, self._refused, self._most_bytes)
        except (RedisError, OSError) as error:
            self._lost(error)
        except Exception as error:  # redis-py lets through what a connection that breaks while it is made does to it
            self._lost(ConnectionError(f"the connection could not be made: {error!r}"))
        else:
            if self.opened:
                metrics.reconnects.labels("redis").inc()
            self.opened += 1
            self._asked_at = asyncio.get_running_loop().time()
            self._opening = None
            self._leave()
        finally:
            self._opening = None

    def _watch(self) -> None:
        """Every command is answered within the time-out, or the connection is given up."""
        self._watchdog = None
        left = self._timeout_s - self.silence
        if self._line is not None and left <= 0:
            self._line.end(TimeoutError(f"no answer within {self._timeout_s:g} s"))
        elif self._waiting:
            self._watchdog = asyncio.get_running_loop().call_later(max(left, 0.01), self._watch)

    def _refused(self, line: RedisReplies, error: Exception) -> None:
        """Quit a server that says that it is not the one to ask. What it was asked already it may still answer."""
        after = quit_after(error)
        if after is None or line is not self._line or line.age < after:
            return
        unsent = [self._waiting.pop() for _ in self._leaving][::-1]
        self._line, self._waiting = None, deque(heard for heard in unsent if heard not in self._bound)
        self._leaving = [c for c, heard in zip(self._leaving, unsent, strict=True) if heard not in self._bound]
        bound, self._bound = self._bound, []
        for heard in bound:
            if not heard.done():
                heard.set_exception(ConnectionError("the connection was replaced"))
        self._asked_at = asyncio.get_running_loop().time()
        self._quitting.add(line)
        line.quit(self._timeout_s, self._quitting.discard)

    def _lost(self, error: Exception) -> None:
        """No late reply is taken for another's: whoever waits is told, and the next command opens a connection."""
        self._line = None
        self._leaving = []
        self._bound.clear()
        waiting, self._waiting = self._waiting, deque()
        for heard in waiting:
            if heard is not None and not heard.done():
                heard.set_exception(error)

    async def close(self) -> None:
        """Close the connection; what was told goes out first, commands under way are cancelled.

        The next command opens another.
        """
        if self._told and None in self._waiting:
            await self._flushed()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            self._opening = None  # a task that was cancelled before it began has not done so
        for heard in self._waiting:
            if heard is not None:
                heard.cancel()
        if self._line is not None:
            self._line.hang_up()
        for line in list(self._quitting):
            line.end(ConnectionError("the connection was closed"))
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        self._lost(ConnectionError("the connection was closed"))

    async def _flushed(self) -> None:
        """Wait, not for long, until the server has had all that was told: nobody else can."""
        mark = self.ask("PING")
        await asyncio.wait([mark], timeout=_FLUSH_S)
        if mark.done() and not mark.cancelled():
            mark.exception()
