"""Sending frames: what one turn of the loop has to say goes out in one system call."""

import asyncio

from pentad.services.tool_worker.children.tool_frames import Frame, pack


class FrameWriter:
    """The writing end of a connection. Used from its loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._waiting: list[bytes] = []

    @property
    def backlog(self) -> int:
        """Bytes that the other side has not taken yet."""
        return self._transport.get_write_buffer_size()

    def send(self, frame: Frame) -> None:
        """Queues a frame. Raises ``ValueError`` when it is not JSON."""
        data = pack(frame)
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        """Sends what is queued, then hangs up."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Hangs up at once."""
        self._transport.abort()

    def _flush(self) -> None:
        if self._waiting and not self._transport.is_closing():
            self._transport.write(b"".join(self._waiting))
        self._waiting.clear()
