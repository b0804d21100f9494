"""One open connection: its replies are handed to those who wait, in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis
from redis.exceptions import ConnectionError, InvalidResponse, NoScriptError, ResponseError, TimeoutError

Heard = asyncio.Future[Any]
"""Where a reply goes."""
_PROBE_S = 1.0


class TooLargeReplyError(ConnectionError):
    """A reply has more bytes than this connection takes: it was closed in the middle."""


class RedisReplies(asyncio.Protocol):
    """Reads the replies of one connection. ``lost`` is told when it ends, ``refused`` each refusal of the server."""

    def __init__(
        self,
        connection: Any,
        waiting: deque[Heard | None],
        lost: Callable[[Exception], None],
        refused: Callable[["RedisReplies", Exception], None],
        most_bytes: int | None = None,
    ) -> None:
        """``most_bytes``: of what a reply may have that is not whole yet."""
        self._connection, self._waiting, self._lost, self._refused = connection, waiting, lost, refused
        # Not public in redis-py: the transport under the connection that it has made.
        self._transport = cast(asyncio.Transport, connection._writer.transport)
        self._transport.set_protocol(self)
        vars(connection._parser).clear()  # redis-py has no more use for it, and it holds itself
        self._replies = hiredis.Reader(protocolError=InvalidResponse, replyError=_refusal)
        self._loop = asyncio.get_running_loop()
        self._opened_at = self._probed_at = self._loop.time()
        self._most_bytes, self._bytes = most_bytes, 0
        self._given_up: asyncio.TimerHandle | None = None
        """Set when nothing more is asked here."""
        self.heard_at = 0.0
        """Loop time of the last reply."""

    @property
    def age(self) -> float:
        """Seconds since it was opened."""
        return self._loop.time() - self._opened_at

    def to_be_probed(self) -> bool:
        """Whether it is time to ask the server if it still takes writes; True once a second."""
        now = self._loop.time()
        due = now - self._probed_at >= _PROBE_S
        if due:
            self._probed_at = now
        return due

    def quit(self, within_s: float, done: Callable[["RedisReplies"], None]) -> None:
        """Ask nothing more, hear what is still owed, and close; whoever waits longer than that is told."""

        def lost(error: Exception) -> None:
            done(self)
            while self._waiting:
                heard = self._waiting.popleft()
                if heard is not None and not heard.done():
                    heard.set_exception(error)

        self._lost = lost
        self._given_up = self._loop.call_later(within_s, self.end, TimeoutError(f"no answer within {within_s:g} s"))

    def send(self, commands: list[bytes]) -> None:
        self._transport.write(b"".join(commands))

    def data_received(self, data: bytes) -> None:
        replies, waiting = self._replies, self._waiting
        self.heard_at = self._loop.time()
        replies.feed(data)
        self._bytes += len(data)
        try:
            while waiting and (reply := replies.gets()) is not False:
                heard, self._bytes = waiting.popleft(), 0
                refused = isinstance(reply, Exception)
                if refused:
                    self._refused(self, reply)
                if heard is None or heard.done():
                    continue
                if refused:
                    heard.set_exception(reply)
                else:
                    heard.set_result(reply)
            if self._most_bytes is not None and self._bytes > self._most_bytes:
                self.end(TooLargeReplyError(f"a reply of more than {self._most_bytes} bytes"))
                return
            if not waiting and replies.has_data():
                raise InvalidResponse("a reply that nobody asked for")
            if not waiting and self._given_up is not None:
                self.end(ConnectionError("the server has been given up"))
        except InvalidResponse as error:
            self.end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(ConnectionError(str(exc or "the server closed the connection")))

    def hang_up(self) -> None:
        """Close at once; nobody is told."""
        self._lost = _nobody
        if self._given_up is not None:
            self._given_up.cancel()
        self._transport.abort()
        self._connection._close()  # or redis-py complains that it is still open

    def end(self, error: Exception) -> None:
        """Close at once, and tell whoever waits."""
        lost = self._lost
        self.hang_up()
        lost(error)


def _nobody(_: Exception) -> None:
    pass


def _refusal(text: str) -> ResponseError:
    return NoScriptError(text) if text.startswith("NOSCRIPT") else ResponseError(text)
