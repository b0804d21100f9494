"""The embedded store of vectors in a child process, so that the event loop of its owner is not held while it works."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pentad.shared.child_processes import Backoff
from pentad.shared.errors import MemoryOutageError
from pentad.shared.memory.child_protocol import (
    HEAD_BYTES,
    MAX_FRAME_BYTES,
    StartedChild,
    encode_points,
    frame_of,
    request_frame,
    result_of,
    start_child,
)
from pentad.shared.memory.ranking import EmbeddedQuestion, MemoryHit
from pentad.shared.memory.remote_calls import CHILD_CALLS, POINTS_AT_ONCE, unpacked
from pentad.shared.vectors.checked_vectors import CheckedVectors
from pentad.shared.vectors.edge_folder import EdgeFolder
from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery


class ChildConnection:
    """The connection to a child process. Answers arrive in the order of requests; one without a caller is dropped."""

    def __init__(self, child: StartedChild, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._child, self._reader, self._writer = child, reader, writer
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[tuple[asyncio.Future[bytes], float]] = deque()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def to(cls, child: StartedChild) -> "ChildConnection":
        """Return a connection to a child that was just started, in its parent's loop."""
        return cls(child, *await asyncio.open_connection(sock=child.connection))

    @property
    def gone(self) -> bool:
        """Whether the child has ended or is unusable."""
        return self._reading.done()

    @property
    def process_id(self) -> int:
        """Id of the child process."""
        return self._child.process.pid

    @property
    def unanswered(self) -> int:
        """Number of requests without an answer."""
        return len(self._unanswered)

    async def answer(self, request: bytes) -> bytes:
        """Send a request; return the answer's body. Raises ``MemoryOutageError`` when the child ends instead."""
        if self.gone:
            raise _child_ended()
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._unanswered.append((future, self._loop.time()))
        self._writer.write(request)
        return await future

    def kill_when_stuck(self, longest_s: float) -> None:
        """Kill the child when it has worked on one request for longer than ``longest_s``."""
        if self._unanswered and self._loop.time() - self._unanswered[0][1] > longest_s:
            self._child.process.kill()

    async def end(self) -> None:
        """Let the child answer pending requests and write everything to disk; kill it when it does not end."""
        with suppress(OSError, RuntimeError):  # it is gone already
            self._writer.write_eof()
        ending = asyncio.create_task(asyncio.to_thread(self._child.ended))
        await asyncio.wait({ending, self._reading}, return_when=asyncio.ALL_COMPLETED)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while (length := int.from_bytes(await self._reader.readexactly(HEAD_BYTES), "big")) <= MAX_FRAME_BYTES:
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
                    future.set_exception(_child_ended())
            self._unanswered.clear()


def _child_ended() -> MemoryOutageError:
    return MemoryOutageError("the process that has the memory open has ended: it is started again")


_MAX_PENDING_CALLS = 256
"""Calls that may be pending; more are refused until later."""
_STUCK_TIMEOUTS = 3
"""A child that works on one call for this many time limits is killed: the next one may do better."""

_NO_LOCK = nullcontext()
"""Stands for no lock, for calls that wait for no other."""


class ChildVectors(CheckedVectors):
    """The port `Vectors`. The folder stays locked while children come and go, so no other process gets it.

    A child that ends unasked loses no write that was awaited; waiting callers get ``MemoryOutageError``. The next call
    starts another child, after longer and longer pauses when they keep ending.
    """

    def __init__(self, folder: Path, timeout_s: float = 10.0) -> None:
        self.timeout_s = timeout_s
        """Seconds that a call may take."""
        self._path = folder
        self._folder = EdgeFolder(folder)
        self._child: ChildConnection | None = None
        self._starting = asyncio.Lock()
        self._writing = asyncio.Lock()
        """Lock of writes, one at a time: a search, which a turn may wait for, waits for one write and not for all."""
        self._backoff = Backoff()
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """Id of the child process; None while there is none."""
        return None if self._child is None or self._child.gone else self._child.process_id

    async def open(self) -> None:
        """Lock the folder, and check that it can be read.

        Raises ``MemoryTakenError`` while another process has it: try again, or go without.
        """
        await self.collections()

    async def aclose(self) -> None:
        """Finish pending calls, write everything to disk and release the folder."""
        self._closed = True
        async with self._starting:
            child, self._child = self._child, None
            if child is not None:
                await child.end()
            await asyncio.to_thread(self._folder.close)

    async def rank(self, collection: str, asked: EmbeddedQuestion) -> list[MemoryHit]:
        """See `RankingVectors`."""
        check_name(collection)
        ranked: list[MemoryHit] = await self._call("rank", collection, asked)
        return ranked

    async def rank_each(self, collection: str, asked: Sequence[EmbeddedQuestion]) -> list[list[MemoryHit]]:
        """Rank what each of several questions finds, see `rank`."""
        check_name(collection)
        ranked: list[list[MemoryHit]] = await self._call("rank_each", collection, list(asked))
        return ranked

    async def parts(self) -> list[str]:
        """Return the parts, see `EmbeddedVectors`."""
        found: list[str] = await self._call("parts")
        return found

    async def read_part(self, part: str, cursor: str | None = None) -> str | None:
        after: str | None = await self._call("read_part", part, cursor)
        return after

    async def set_aside(self, part: str) -> str:
        place: str = await self._call("set_aside", part)
        return place

    async def _upsert(self, collection: str, points: Sequence[Point]) -> None:
        for begin in range(0, max(1, len(points)), POINTS_AT_ONCE):
            told, numbers = encode_points(points[begin : begin + POINTS_AT_ONCE])
            request = request_frame("upsert", [collection, told]) + frame_of(numbers)
            result_of(await self._answer(request, self._writing))

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        return unpacked(await self._call("search", collection, list(queries)))

    async def _call(self, call: str, *args: Any) -> Any:
        request = request_frame(call, CHILD_CALLS[call].given.dump_python(args, mode="json"))
        return CHILD_CALLS[call].gives.validate_json(result_of(await self._answer(request)))

    async def _answer(self, request: bytes, turn: AbstractAsyncContextManager[None] = _NO_LOCK) -> bytes:
        """Send a request and return its answer. ``turn`` is acquired first; the time limit includes that wait."""
        try:
            async with asyncio.timeout(self.timeout_s) as limit, turn:
                child = await self._connected()
                if child.unanswered >= _MAX_PENDING_CALLS:
                    child.kill_when_stuck(_STUCK_TIMEOUTS * self.timeout_s)
                    raise MemoryOutageError(
                        f"{_MAX_PENDING_CALLS} calls wait for the memory in {self._path}: try later"
                    )
                return await child.answer(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._child is not None:
                self._child.kill_when_stuck(_STUCK_TIMEOUTS * self.timeout_s)
            raise MemoryOutageError(
                f"the memory in {self._path} did not answer in {self.timeout_s:g} s: try again later"
            ) from None

    async def _connected(self) -> ChildConnection:
        """Return the connection to the child, and start one where there is none."""
        async with self._starting:
            if self._closed:
                raise MemoryOutageError(f"the memory in {self._path} is closed")
            if self._child is not None and self._child.gone:
                self._backoff.lost(asyncio.get_running_loop().time())
                child, self._child = self._child, None
                await child.end()
            if self._child is None:
                self._child = await self._started()
            return self._child

    async def _started(self) -> ChildConnection:
        now = asyncio.get_running_loop().time()
        if (wait_s := self._backoff.delay(now)) > 0:
            raise MemoryOutageError(f"the process that has the memory open keeps ending: it starts in {wait_s:.1f} s")
        await asyncio.to_thread(self._folder.open)
        self._backoff.started(now)
        try:
            child = start_child(self._path, self._folder.lock or 0)
        except OSError as error:
            self._backoff.lost(now)
            raise MemoryOutageError(f"the memory's process cannot be started: {error}") from None
        return await ChildConnection.to(child)
