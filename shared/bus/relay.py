"""The relay: one loop per gateway process and shard carries events from the sessions' streams to their listeners."""

import asyncio
from collections.abc import Callable

from shared.bus.shard_relay import ShardRelay
from shared.cancelling import cancel_all


class Relay:
    """The relays of all shards of one gateway process."""

    def __init__(self, url: str, shards: int) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.shards = [ShardRelay(url, shard, self._reconnected) for shard in range(shards)]
        self._loops: list[asyncio.Task[None]] = []

    def on_connect(self, call: Callable[[], None]) -> None:
        """Call this for each new connection, as soon as Redis answers on it."""
        self._listeners.append(call)

    def _reconnected(self) -> None:
        for listener in self._listeners:
            listener()

    async def start(self) -> None:
        """Begin to relay; returns once every shard's loop has had its first answer."""
        self._loops = [asyncio.create_task(shard.run()) for shard in self.shards]
        await asyncio.gather(*(shard.began.wait() for shard in self.shards))

    async def stop(self) -> None:
        """End the loops and their connections."""
        await cancel_all(self._loops)
        await asyncio.gather(*(shard.close() for shard in self.shards))

    def alive(self) -> bool:
        """Whether all loops run."""
        return all(not loop.done() for loop in self._loops)

    @property
    def trouble(self) -> str | None:
        """Why events do not flow; None when they do."""
        return next((shard.trouble for shard in self.shards if shard.trouble), None)

    @property
    def answered_at(self) -> float:
        """``monotonic`` time at which Redis had last answered every loop."""
        return min(shard.answered_at for shard in self.shards)
