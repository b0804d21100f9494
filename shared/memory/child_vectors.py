"""The embedded store of vectors in a child process: whoever has it is not held up while it works."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

from pentad.shared.child_processes import Backoff
from pentad.shared.errors import MemoryOutageError
from pentad.shared.memory.child_connection import ChildConnection
from pentad.shared.memory.child_frames import framed, points_told, request_of, result_of
from pentad.shared.memory.child_launch import start_child
from pentad.shared.memory.ranking import MemoryRanking, RankedMemories
from pentad.shared.memory.vector_calls import CHILD_CALLS, POINTS_AT_ONCE, unpacked
from pentad.shared.vectors.checked import CheckedVectors
from pentad.shared.vectors.edge_folder import EdgeFolder
from pentad.shared.vectors.limits import check_name
from pentad.shared.vectors.points import Hit, Point
from pentad.shared.vectors.selection import VectorQuery

_MOST_WAITING = 256
"""Calls under way; more are told to come later."""
_STUCK = 3
"""After so many times the limit of a call at one of them, a child is ended: the next may do better."""

_AT_ONCE = nullcontext()
"""The turn of a call that waits for no other."""


class ChildVectors(CheckedVectors):
    """See `Vectors`. The folder's lock is taken here and kept while children come and go: no other process gets it.

    A child that ends unasked loses nothing that was awaited; who waits for it gets ``MemoryOutageError``, and the next
    call starts another, later and later when they keep ending.
    """

    def __init__(self, folder: Path, timeout_s: float = 10.0) -> None:
        self.timeout_s = timeout_s
        """How long a call may take."""
        self._path = folder
        self._folder = EdgeFolder(folder)
        self._child: ChildConnection | None = None
        self._starting = asyncio.Lock()
        self._writing = asyncio.Lock()
        """One request to write is under way: a search, which a turn may wait for, waits for one and not for all."""
        self._backoff = Backoff()
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """Of the child; None while there is none."""
        return None if self._child is None or self._child.gone else self._child.process_id

    async def open(self) -> None:
        """Take the folder, and see that it can be read.

        Raises ``MemoryTakenError`` while another process has it: try again, or go without.
        """
        await self.collections()

    async def aclose(self) -> None:
        """Finish what was begun, write everything down and let the folder go."""
        self._closed = True
        async with self._starting:
            child, self._child = self._child, None
            if child is not None:
                await child.end()
            await asyncio.to_thread(self._folder.close)

    async def rank(self, collection: str, asked: MemoryRanking) -> RankedMemories:
        """See `RankingVectors`."""
        check_name(collection)
        ranked: RankedMemories = await self._call("rank", collection, asked)
        return ranked

    async def parts(self) -> list[str]:
        """See `EmbeddedVectors`, as of the next two."""
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
            told, numbers = points_told(points[begin : begin + POINTS_AT_ONCE])
            request = request_of("upsert", [collection, told]) + framed(numbers)
            result_of(await self._answer(request, self._writing))

    async def _search(self, collection: str, queries: Sequence[VectorQuery]) -> list[list[Hit]]:
        return unpacked(await self._call("search", collection, list(queries)))

    async def _call(self, call: str, *args: Any) -> Any:
        request = request_of(call, CHILD_CALLS[call].given.dump_python(args, mode="json"))
        return CHILD_CALLS[call].gives.validate_json(result_of(await self._answer(request)))

    async def _answer(self, request: bytes, turn: AbstractAsyncContextManager[None] = _AT_ONCE) -> bytes:
        """``turn``: what is waited for before it is sent; the limit counts from before."""
        try:
            async with asyncio.timeout(self.timeout_s) as limit, turn:
                child = await self._connected()
                if child.unanswered >= _MOST_WAITING:
                    child.kill_when_stuck(_STUCK * self.timeout_s)
                    raise MemoryOutageError(f"{_MOST_WAITING} calls wait for the memory in {self._path}: try later")
                return await child.answer(request)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._child is not None:
                self._child.kill_when_stuck(_STUCK * self.timeout_s)
            raise MemoryOutageError(
                f"the memory in {self._path} did not answer in {self.timeout_s:g} s: try again later"
            ) from None

    async def _connected(self) -> ChildConnection:
        """The child that is there, or another."""
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
