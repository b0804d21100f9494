"""One Redis connection for a loop of its own: raw replies, no pool, no callbacks, commands packed by hand."""

from collections.abc import Sequence
from typing import Any

from shared.state.store import connect

_TIMEOUT_S = 5.0


def packed(*words: bytes) -> bytes:
    """A command in Redis's protocol."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def bulk(word: bytes) -> bytes:
    """One word of a command in Redis's protocol."""
    return b"$%d\r\n%b\r\n" % (len(word), word)


class Wire:
    """Connects on first use and again after an error; the caller repeats what is safe to repeat."""

    def __init__(self, url: str) -> None:
        self._pool: Any = connect(url, socket_timeout=_TIMEOUT_S).connection_pool
        self._connection: Any = None

    @property
    def connected(self) -> bool:
        """Whether the last question was answered over a connection that is still open."""
        return self._connection is not None

    async def ask(self, command: bytes) -> Any:
        """Send one packed command and read its reply. A blocking one must block for less than 5 s."""
        return (await self.ask_all([command]))[0]

    async def ask_all(self, commands: Sequence[bytes]) -> list[Any]:
        """Send several at once and read their replies.

        Raises redis-py's errors; the connection is closed then, so that no late reply is taken for another's.
        """
        if self._connection is None:
            connection = self._pool.make_connection()
            await connection.connect()
            self._connection = connection
        try:
            await self._connection.send_packed_command(b"".join(commands), check_health=False)
            return [await self._connection.read_response() for _ in commands]
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection; the next question opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
