"""A child process that has the embedded store open, and the requests that it has not answered yet."""

import asyncio
from collections import deque
from contextlib import suppress

from pentad.shared.errors import MemoryOutageError
from pentad.shared.memory.child_frames import HEAD, MOST_BYTES
from pentad.shared.memory.child_launch import StartedChild


class ChildConnection:
    """Answers come in the order of the requests; one whose caller has gone is dropped."""

    def __init__(self, child: StartedChild, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._child, self._reader, self._writer = child, reader, writer
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[tuple[asyncio.Future[bytes], float]] = deque()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, child: StartedChild) -> "ChildConnection":
        """Of a child that was just started, in its parent's loop."""
        return cls(child, *await asyncio.open_connection(sock=child.connection))

    @property
    def gone(self) -> bool:
        """Whether the child has ended, or is no use any more."""
        return self._reading.done()

    @property
    def process_id(self) -> int:
        """The child's."""
        return self._child.process.pid

    @property
    def unanswered(self) -> int:
        """How many requests it has."""
        return len(self._unanswered)

    async def answer(self, request: bytes) -> bytes:
        """The answer's frame, without its length. Raises ``MemoryOutageError`` when the child ends instead."""
        if self.gone:
            raise _ended()
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._unanswered.append((future, self._loop.time()))
        self._writer.write(request)
        return await future

    def kill_when_stuck(self, longest_s: float) -> None:
        """End it when it has been at one request for so long."""
        if self._unanswered and self._loop.time() - self._unanswered[0][1] > longest_s:
            self._child.process.kill()

    async def end(self) -> None:
        """Let it answer what it was asked and write everything down; killed when it does not."""
        with suppress(OSError, RuntimeError):  # it is gone already
            self._writer.write_eof()
        ending = asyncio.create_task(asyncio.to_thread(self._child.ended))
        await asyncio.wait({ending, self._reading}, return_when=asyncio.ALL_COMPLETED)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while (length := int.from_bytes(await self._reader.readexactly(HEAD), "big")) <= MOST_BYTES:
                answer = await self._reader.readexactly(length)
                future, _ = self._unanswered.popleft()
                if not future.done():
                    future.set_result(answer)
        except (EOFError, OSError, IndexError):
            pass
        finally:
            self._child.process.kill()
            for future, _ in self._unanswered:
                if not future.done():
                    future.set_exception(_ended())
            self._unanswered.clear()


def _ended() -> MemoryOutageError:
    return MemoryOutageError("the process that has the memory open has ended: it is started again")
