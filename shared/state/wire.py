"""One Redis connection, used by one loop: raw replies, no pool, no callbacks, commands packed by hand.

redis-py makes the connection (address, TLS, authentication) and reads the replies; what its clients add for a command
costs more than the command (docs/decisions/0005).
"""

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

TIMEOUT_S = 10.0


def connect(url: str, **options: Any) -> Redis:
    """A client for commands: no hidden retries, bounded waiting. Connects on first use."""
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": 2.0, "max_connections": 1000} | options
    return Redis.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0), **options)


def packed(*words: bytes) -> bytes:
    """A command in Redis's protocol."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def bulk(word: bytes) -> bytes:
    """One word of a command in Redis's protocol."""
    return b"$%d\r\n%b\r\n" % (len(word), word)


class Wire:
    """Connects on first use and again after an error; the caller repeats what is safe to repeat."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._pool: Any = connect(url, socket_timeout=timeout_s).connection_pool
        self._connection: Any = None

    @property
    def connected(self) -> bool:
        """Whether the last question was answered over a connection that is still open."""
        return self._connection is not None

    async def ask(self, command: bytes) -> Any:
        """Send one packed command and read its reply. A blocking one must block for less than the time-out."""
        return (await self.ask_all([command]))[0]

    async def ask_all(self, commands: Sequence[bytes]) -> list[Any]:
        """Send several at once and read their replies. Raises the first that is an error."""
        replies = await self.replies(commands)
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise reply
        return replies

    async def replies(self, commands: Sequence[bytes]) -> list[Any]:
        """Send several at once and read their replies, the server's refusals among them.

        Raises redis-py's errors of the connection, which is closed then: no late reply is taken for another's.
        """
        connection = await self._open()
        try:
            await connection.send_packed_command(b"".join(commands), check_health=False)
            return [await _reply(connection) for _ in commands]
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> Any:
        """The connection. One that the server has closed meanwhile is replaced: nothing was sent over it yet."""
        if self._connection is not None and self._connection._reader.at_eof():
            await self.close()
        if self._connection is None:
            connection = self._pool.make_connection()
            await connection.connect()
            self._connection = connection
        return self._connection

    async def close(self) -> None:
        """Close the connection; the next question opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as refusal:
        return refusal
