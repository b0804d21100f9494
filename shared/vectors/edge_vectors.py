"""The store of vectors in this process: qdrant-edge, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pentad.shared.errors import MemoryOutageError, SettingsError
from pentad.shared.vectors.checked_vectors import CheckedVectors

if TYPE_CHECKING:
    from pentad.shared.vectors.edge_shards import EdgeShards

T = TypeVar("T")

_MOST_WAITING = 256
"""Calls that wait for the thread; more are refused until later."""


class EdgeVectors(CheckedVectors):
    """The port `Vectors` without a server: a folder that one process uses. It is opened at the first use.

    It suits a process that does nothing else meanwhile, such as tests and evaluations, because qdrant-edge holds
    Python's lock. An archiver has the store in a child process (`pentad.shared.memory.child_vectors`).

    Searches look at every point that the selection lets through, which suits some 200,000 points of a tenant. A killed
    process loses no write that was awaited; a power cut may lose what the operating system had not written yet.
    """

    def __init__(self, folder: Path, timeout_s: float = 10.0) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "vectors")
        self._shards: EdgeShards | None = None
        self._waiting = 0

    async def open(self) -> None:
        """Lock the folder. Raises ``MemoryTakenError`` while another process has it: try again, or go without."""
        await self._do(lambda shards: shards.open())

    async def aclose(self) -> None:
        """Finish pending calls, write everything to disk and release the folder."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._shards is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._shards.close)
        thread.shutdown()

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

    async def _call(self, call: str, *args: Any) -> Any:
        return await self._do(lambda shards: getattr(shards, call)(*args))

    async def _do(self, work: Callable[[EdgeShards], T]) -> T:
        if self._thread is None:
            raise MemoryOutageError(f"the memory in {self._folder} is closed")
        if self._waiting >= _MOST_WAITING:
            raise MemoryOutageError(f"{_MOST_WAITING} calls wait for the memory in {self._folder}: try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._opened()))
        except TimeoutError:
            if not limit.expired():
                raise
            raise MemoryOutageError(
                f"the memory in {self._folder} did not answer in {self._timeout_s:g} s: try again later"
            ) from None
        finally:
            self._waiting -= 1

    def _opened(self) -> EdgeShards:
        if self._shards is None:
            try:
                from pentad.shared.vectors.edge_shards import EdgeShards
            except ImportError as error:
                raise SettingsError(
                    f"the embedded memory needs qdrant-edge-py: pip install 'pentad[server]' or set QDRANT_URL; {error}"
                ) from None
            self._shards = EdgeShards(self._folder)
        return self._shards
