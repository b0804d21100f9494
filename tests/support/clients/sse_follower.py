"""A persistent client over plain HTTP: it posts messages, and reads its session's events as server-sent events."""

import json
from typing import Any

from httpx2 import AsyncClient, HTTPError, Timeout

from tests.support.clients.follower import Follower

_SILENT_S = 40.0
"""Seconds of silence after which the client reconnects; the gateway sends a comment at least every 15 s."""


class SseFollower(Follower):
    """Follows one session over whichever gateway answers, by SSE."""

    _url = ""

    async def _write(self, message: dict[str, Any]) -> None:
        if not self._url:
            return
        try:
            async with AsyncClient(timeout=10, trust_env=False) as client:
                body = {"session_id": self.session, **message}
                reply = await client.post(f"{self._url}/v1/messages", json=body)
        except HTTPError as error:
            raise OSError(str(error)) from None
        if reply.status_code == 202:
            self._take({"type": "accepted", "message_id": reply.json()["message_id"]})

    async def _follow(self, url: str) -> None:
        timeout = Timeout(5, read=_SILENT_S)
        address = f"{url}/v1/sessions/{self.session}/events"
        try:
            async with (
                AsyncClient(timeout=timeout, trust_env=False) as client,
                client.stream("GET", address, headers={"Last-Event-ID": self.cursor}) as reply,
            ):
                reply.raise_for_status()
                self.reconnects += 1
                self._url = url
                async for line in reply.aiter_lines():
                    if line.startswith("data: "):
                        self._take(json.loads(line.removeprefix("data: ")))
        except HTTPError as error:
            raise OSError(str(error)) from None
