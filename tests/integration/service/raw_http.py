"""A client that sends what no client sends."""

import asyncio
from urllib.parse import urlsplit


class RawHttp:
    """One connection of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> "RawHttp":
        where = urlsplit(address)
        return cls(*await asyncio.open_connection(where.hostname, where.port))

    async def send(self, data: bytes) -> None:
        """Send it; a server that has hung up meanwhile is no error here."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            pass

    async def answer(self, seconds: float = 10.0) -> tuple[int, bytes]:
        """Status and all that comes until the server hangs up; 0 when it says nothing."""
        try:
            async with asyncio.timeout(seconds):
                data = await self.reader.read(-1)
        except ConnectionError:
            data = b""
        return (int(data[9:12]) if data.startswith(b"HTTP/1.1 ") else 0), data

    async def flood(self, piece: bytes, most: int) -> int:
        """Send the same again and again until the server no longer takes it; returns the bytes that it took."""
        sent = 0
        while sent < most and not self._writer.is_closing():
            await self.send(piece)
            sent += len(piece)
        return sent

    def stop_reading(self) -> None:
        """Leave in the system's buffers what the server sends."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def go_on_reading(self) -> None:
        """Take what is there."""
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def aclose(self) -> None:
        self._writer.transport.abort()


async def exchange(address: str, data: bytes, seconds: float = 10.0) -> tuple[int, bytes]:
    """What a server answers to these bytes."""
    client = await RawHttp.to(address)
    try:
        await client.send(data)
        return await client.answer(seconds)
    finally:
        await client.aclose()
