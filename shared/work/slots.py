"""How many entries are handled at once, by one consumer or by several together."""

import asyncio
from collections import deque


class Slots:
    """Places for what is handled. Whoever asks Redis for entries has taken their places before."""

    def __init__(self, places: int) -> None:
        self.free = places
        self.sharers = 0
        """Consumers that take from here."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, most: int) -> int:
        """Wait, in turn, until a place is free, and take as many as are, up to so many."""
        if self._waiting or not self.free:
            await self._turn()
        taken = min(most, self.free)
        self.free -= taken
        if self._waiting:
            self._wake()
        return taken

    def give(self, places: int) -> None:
        """Give places back."""
        self.free += places
        if self._waiting:
            self._wake()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        while True:
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._wake()
                raise
            if self.free:
                return
            turn = asyncio.get_running_loop().create_future()  # another was quicker: next in turn all the same
            self._waiting.appendleft(turn)

    def _wake(self) -> None:
        while self.free and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
