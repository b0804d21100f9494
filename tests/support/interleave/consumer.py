"""The bus's consumer with its fresh entries read through the stepped store instead of FastStream."""

import asyncio
from random import Random

from shared.bus.broker import ensure_group
from shared.bus.consumer import Consumer
from shared.bus.entry import Entry
from shared.errors import OutageError
from shared.state.store import guarded

_PAUSE_S = 0.04


class SteppedConsumer(Consumer):
    """Everything but the reading of fresh entries is the real one's."""

    chance: Random

    async def start(self) -> None:
        await guarded("group", lambda: ensure_group(self.store, self.key, self.group))
        self._tasks = [asyncio.create_task(loop) for loop in (self._reclaim(), self._read())]

    async def _read(self) -> None:
        args = ("XREADGROUP", "GROUP", self.group, self.consumer, "COUNT")
        while True:
            try:
                reply = await self.store.call(*args, self.chance.randint(1, 3), "STREAMS", self.key, ">")
            except OutageError:
                reply = None
            if not reply:
                await asyncio.sleep(self.chance.uniform(0.5, 2) * _PAUSE_S)
                continue
            await self._fresh([Entry(self.key, i.decode(), f[1]) for i, f in reply[0][1]])

    async def stop_reading(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
