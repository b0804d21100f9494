"""What all tool hops share: the call, how many are under way, and how long each took."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.tools import Effect
from tests.bench.common import middle, quantile

IN_FLIGHT = 64
_LIMIT_S = 60.0


def command(number: int) -> ToolCallCommand:
    """A small call, with all that a real one carries."""
    return ToolCallCommand(
        event_id=f"step-0123456789abcdef.{number}",
        at="2026-01-01T00:00:00.000Z",
        tenant_id="default",
        session_id="session-1",
        task_id="t0-0123456789abcdef",
        correlation_id="m-1",
        causation_id="step-0123456789abcdef",
        tool_call_id=f"c0-{number}",
        step=1,
        tool="echo",
        args={"text": "hello"},
        effect=Effect.PURE,
        timeout=60.0,
    )


class Pace:
    """Counts calls down. Whoever starts one asks `more` first, and says `back` when its result is here."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self._to_send = self._left = 0
        self._done = asyncio.Event()

    def begin(self, total: int) -> None:
        """So many calls from here on."""
        self.spent = []
        self._to_send = self._left = total
        self._done.clear()

    def more(self) -> bool:
        """Whether another call may start; counts it when it may."""
        self._to_send -= 1
        return self._to_send >= 0

    def back(self, begun: float) -> None:
        """A call's result has come."""
        self.spent.append(time.perf_counter() - begun)
        self._left -= 1
        if self._left == 0:
            self._done.set()

    async def wait(self) -> None:
        """Until all are back. Raises ``TimeoutError`` after a minute."""
        await asyncio.wait_for(self._done.wait(), _LIMIT_S)


class Chains:
    """Keeps so many calls in flight over a stream: each result starts the next."""

    def __init__(self, send: Callable[[], Awaitable[None]]) -> None:
        self._send, self.pace = send, Pace()
        self.worker = 0
        """The process on the other side."""
        self._begun: deque[float] = deque()

    async def run(self, total: int, in_flight: int) -> float:
        """Make ``total`` calls; returns the seconds they took together."""
        self.pace.begin(total)
        begun = time.perf_counter()
        for _ in range(in_flight):
            await self._one()
        await self.pace.wait()
        return time.perf_counter() - begun

    async def _one(self) -> None:
        if self.pace.more():
            self._begun.append(time.perf_counter())
            await self._send()

    async def back(self) -> None:
        """A result has come."""
        self.pace.back(self._begun.popleft())
        await self._one()


class Figures:
    """Rounds of one kind of hop."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.alone: list[float] = []

    async def add(self, run: Callable[[int, int], Awaitable[float]], pace: Pace, total: int, alone: int) -> int:
        """One round, alone and together; returns how many calls it made."""
        warm = max(IN_FLIGHT, total // 10)
        await run(warm, IN_FLIGHT)
        await run(alone, 1)
        self.alone.append(quantile(pace.spent, 0.5))
        self.rates.append(total / await run(total, IN_FLIGHT))
        return warm + alone + total

    @property
    def rate(self) -> float:
        """Calls a second, the median of the rounds."""
        return middle(self.rates)

    @property
    def p50(self) -> float:
        """Seconds of one hop alone, the median of the rounds."""
        return middle(self.alone)
