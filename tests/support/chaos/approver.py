"""A person who allows every call that waits for approval, as soon as it is asked for."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from httpx2 import AsyncClient, HTTPError

from tests.support.clients.follower import Event, Follower

_AGAIN_S = 1.0
"""Seconds after which a decision without effect is sent again: a failover may have undone it."""


class Approver:
    """Allows calls twice at the same instant, at two gateways: it is one decision."""

    def __init__(self, gateways: Callable[[], Sequence[str]]) -> None:
        self._gateways = gateways
        self._said: dict[str, float] = {}

    async def allow(self, follower: Follower) -> None:
        """Allow the open calls of a session whose client has been told of them."""
        decided = {event["tool_call_id"] for event in follower.seen("approval")}
        for asked in follower.seen("approval_request"):
            call = asked["tool_call_id"]
            if call not in decided and time.monotonic() - self._said.get(call, -_AGAIN_S) >= _AGAIN_S:
                self._said[call] = time.monotonic()
                await self._decide(asked)

    async def _decide(self, asked: Event) -> None:
        path = f"/v1/tasks/{asked['task_id']}/approvals/{asked['tool_call_id']}"
        body = {"approved": True, "args_digest": asked["args_digest"]}
        with suppress(HTTPError):
            async with AsyncClient(timeout=3, trust_env=False) as client:
                sent = [client.post(f"{url}{path}", json=body) for url in self._gateways()[:2]]
                await asyncio.gather(*sent, return_exceptions=True)
