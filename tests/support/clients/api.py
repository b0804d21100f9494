"""The gateway's REST side and SSE, as any HTTP client sees them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import AsyncClient, Response

from tests.support.waiting import PATIENCE_S

Event = dict[str, Any]


class Api:
    """One gateway over HTTP. ``key``: an API key or the admin key, where one is asked for."""

    def __init__(self, url: str, key: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False, headers=headers)

    async def __aenter__(self) -> "Api":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, status: int = 200) -> Any:
        """The JSON at a path; asserts the status."""
        return _checked(await self._client.get(path), status)

    async def post(self, path: str, body: Any = None, status: int = 202) -> Any:
        """Send JSON; asserts the status."""
        return _checked(await self._client.post(path, json=body), status)

    async def delete(self, path: str, status: int = 202) -> Any:
        """Have something deleted; asserts the status."""
        return _checked(await self._client.delete(path), status)

    async def transcript(self, task_id: str) -> list[dict[str, Any]]:
        """A task's messages."""
        found: list[dict[str, Any]] = (await self.get(f"/v1/tasks/{task_id}/transcript"))["messages"]
        return found

    @asynccontextmanager
    async def sse(self, session: str, last_event_id: str | None = None) -> AsyncIterator[AsyncIterator[Event]]:
        """A session's events by SSE, each checked to carry its cursor as the SSE id."""
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        async with self._client.stream("GET", f"/v1/sessions/{session}/events", headers=headers) as response:
            assert response.status_code == 200, response.status_code
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _events(response)


async def _events(response: Response) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "data" in fields:
            event: Event = json.loads(fields["data"])
            assert event.get("id") == fields.get("id"), fields
            yield event
        fields = {}


def _checked(response: Response, status: int) -> Any:
    assert response.status_code == status, f"{response.request.url}: {response.status_code} {response.text}"
    return response.json() if response.content else None
