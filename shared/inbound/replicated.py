"""Appends that count only when replicas have them too (WAIT)."""

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.store.store import Argument, Store
from pentad.shared.store.wire import Wire

_WAIT_MS = 1000
"""How long replicas may take; a client is told after that, and may send again."""

Append = tuple[Sequence[Argument], "asyncio.Future[bytes]"]


class ReplicatedAppends:
    """Over a connection of its own: WAIT speaks of its connection's writes, and holds back all that is asked behind it.

    What comes while one WAIT is under way goes together, behind it, with one WAIT for all.
    """

    def __init__(self, store: Store, replicas: int) -> None:
        self._store, self._replicas = store, replicas
        self._wire = Wire(store.url)
        self._queue: list[Append] = []
        self._sender: asyncio.Task[None] | None = None

    async def append(self, *command: Argument) -> bytes:
        """Execute an XADD; returns the entry's id once enough replicas have it.

        Raises ``OutageError``: then the entry may be there all the same.
        """
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._queue.append((command, done))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await done

    async def _send(self) -> None:
        batch: list[Append] = []
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._send_together(batch)
        finally:
            self._sender = None
            for _, done in batch:
                done.cancel()  # what has no outcome yet

    async def _send_together(self, batch: Sequence[Append]) -> None:
        reads = [self._store.read(self._wire, *command) for command, _ in batch]
        wait = self._store.read(self._wire, "WAIT", self._replicas, _WAIT_MS)
        *entries, confirmed = await asyncio.gather(*reads, wait, return_exceptions=True)
        if isinstance(confirmed, RefusedWriteError | RedisError):  # the WAIT was: the entries are there
            confirmed = OutageError(f"whether replicas have a message is not known: {confirmed}")
        if not isinstance(confirmed, BaseException) and confirmed < self._replicas:
            confirmed = self._store.refused(
                f"{confirmed} of {self._replicas} replicas have a message within {_WAIT_MS / 1000:g} s"
                " (PENTAD_REDIS_REPLICAS)"
            )
        for (_, done), entry in zip(batch, entries, strict=True):
            if done.done():
                continue
            if isinstance(entry, BaseException):
                done.set_exception(entry)
            elif isinstance(confirmed, BaseException):
                done.set_exception(confirmed)
            else:
                done.set_result(entry)

    async def close(self) -> None:
        """Close the connection; appends under way are cancelled."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
        for _, done in self._queue:
            done.cancel()
        await self._wire.close()
