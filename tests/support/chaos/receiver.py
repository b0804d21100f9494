"""The receiver of a chaos run's webhooks: it has failures of its own, and writes down what came and what it took."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.support.outside.web_server import WebServer, web_server
from tests.support.outside.webhook_receiver import BROKEN, OK, SECRET, is_signed

_FAILURES = {"500": 0.02, "cut off": 0.02, "late": 0.05, "silent": 0.004}
"""Share of the requests that fail in each way; one that is answered late is taken."""
_LATE_S = 0.3
_MAX_FAILURES = 2
"""Failures of one delivery at most: the pauses between its attempts grow, and the run has an end."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that came."""

    webhook: str
    """Path of the webhook."""
    delivery: str
    """Id that all attempts of one delivery share."""
    event: dict[str, Any]
    at: float
    """Time by the monotonic clock."""
    signed: bool
    taken: bool
    """Whether it was answered as taken; its gateway may have been dead by then."""


class UnsteadyReceiver:
    """Takes what comes to the paths ``all`` and ``one``, unless it fails. ``silent_s``: seconds of a silence."""

    def __init__(self, rng: random.Random, server: WebServer, silent_s: float) -> None:
        self._rng, self._server, self._silent_s = rng, server, silent_s
        self.arrivals: list[Arrival] = []
        self.failures: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        """Failures of each delivery."""
        self._calm = asyncio.Event()

    @property
    def place(self) -> str:
        """Host and port, as an operator allows them."""
        return self._server.place

    def url(self, webhook: str) -> str:
        """Return the address of a webhook."""
        return f"{self._server.url}/{webhook}"

    def calm_down(self) -> None:
        """Fail no more, and end the silences."""
        self._calm.set()

    async def answer(self, webhook: str, writer: asyncio.StreamWriter) -> None:
        """Answer the request that came last, or fail."""
        request, at = self._server.received.pop(), time.monotonic()
        delivery, body = request.headers["webhook-id"], json.loads(request.body)
        failure = self._failure(delivery)
        taken = failure in (None, "late")
        signed = is_signed(request, SECRET) and body["type"] == body["data"]["type"]
        self.arrivals.append(Arrival(webhook, delivery, body["data"], at, signed, taken))
        if failure == "late":
            await asyncio.sleep(_LATE_S)
        elif failure == "silent":
            await self._keep_silent()
        if taken or failure == "500":
            writer.write(OK if taken else BROKEN)
            await writer.drain()

    def _failure(self, delivery: str) -> str | None:
        """Return how the next request fails, or None."""
        if self._calm.is_set() or self._failed[delivery] >= _MAX_FAILURES:
            return None
        ways = {way: share for way, share in _FAILURES.items() if self._silent_s or way != "silent"}
        [failure] = self._rng.choices([None, *ways], [1 - sum(ways.values()), *ways.values()])
        if failure is not None:
            self.failures[failure] += 1
            self._failed[delivery] += failure != "late"
        return failure

    async def _keep_silent(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._calm.wait(), self._silent_s)


@asynccontextmanager
async def unsteady_receiver(rng: random.Random, silent_s: float) -> AsyncIterator[UnsteadyReceiver]:
    """Run a receiver while the block runs."""
    async with web_server() as server:
        receiver = UnsteadyReceiver(rng, server, silent_s)
        server.answers.update({f"/{name}": partial(receiver.answer, name) for name in ("all", "one")})
        try:
            yield receiver
        finally:
            receiver.calm_down()
