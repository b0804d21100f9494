"""A consumer of the bus that reads new entries through the stepped store instead of FastStream."""

import asyncio
from random import Random
from typing import Any

from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.store.store import guarded
from pentad.shared.store.wire import Word
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry

_PAUSE_S = 0.04


class SteppedConsumer(Consumer):
    """The real consumer, but for the reading of new entries."""

    chance: Random

    async def start(self) -> None:
        await guarded("group", lambda: ensure_group(self.store, self.key, self.group))
        self._tasks = [asyncio.create_task(self._read())]

    async def _read(self) -> None:
        while True:
            for _, found in await self.intake.turn(self._ask):
                await self._fresh([Entry(self.key, i.decode(), f[1]) for i, f in found])

    async def _ask(self, *command: Word) -> Any:
        """Send the reader's command; a blocking read waits here, and a read returns one to three entries."""
        waits = "BLOCK" in command
        at = command.index("COUNT") + 1
        most = min(int(command[at]), self.chance.randint(1, 3))
        try:
            reply = await self.store.call(*command[:at], most, *command[at + (3 if waits else 1) :])
        except OutageError:
            self.intake.trouble()
            reply = None
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            await guarded("group", lambda: ensure_group(self.store, self.key, self.group))  # it was made and lost again
            reply = None
        if not reply and (waits or reply is None):
            await asyncio.sleep(self.chance.uniform(0.5, 2) * _PAUSE_S)
        return reply

    async def stop_reading(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
