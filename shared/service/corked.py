"""What is written to a transport in one turn of the loop goes out at once."""

import asyncio
from typing import Any

_MOST_CORKED = 1 << 16  # bytes


class Corked:
    """A transport that sends once in a turn of the loop what was written in it: a frame alone costs as much.

    What is much goes at once: only what was sent can pause the writer.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._written: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it, soon."""
        if not self._written:
            asyncio.get_running_loop().call_soon(self._send)
        self._written.append(data)
        self._size += len(data)
        if self._size > _MOST_CORKED:
            self._send()

    def close(self) -> None:
        """Send what is left, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written, self._size = self._written, [], 0
        if written and not self._transport.is_closing():  # uvloop raises when the client has gone meanwhile
            self._transport.write(b"".join(written))
