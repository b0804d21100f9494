"""What the stream of server-sent events promises."""

import asyncio
import json
from typing import Any

import httpx2

from tests.integration.gateway.speaker import Speaker
from tests.support.waiting import PATIENCE_S

PROBLEM = "application/problem+json"


async def test_server_sent_events(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    first = await speaker.say("task_start", goal="one")
    async with http.stream("GET", "/v1/sessions/s1/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        assert await _next_event(lines) == (first, "one")
        second = await speaker.say("task_start", goal="two")
        assert await _next_event(lines) == (second, "two")
    async with http.stream("GET", "/v1/sessions/s1/events", headers={"Last-Event-ID": first}) as response:
        assert await _next_event(response.aiter_lines()) == (second, "two")


async def test_asked_for_the_head_alone_it_ends(http: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S):
        response = await http.head("/v1/sessions/s1/events")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


async def test_server_sent_events_say_when_the_cursor_expired(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    newest = await speaker.say("task_start", goal="one")
    async with http.stream("GET", "/v1/sessions/s1/events", headers={"Last-Event-ID": "5-0"}) as response:
        text = ""
        async for part in response.aiter_text():
            text += part
            if '"snapshot"' in text:
                break
    assert '"code":"cursor_expired"' in text
    assert f"id: {newest}\n" in text


async def _next_event(lines: Any) -> tuple[str, str]:
    async with asyncio.timeout(PATIENCE_S):
        return await _next(lines)


async def _next(lines: Any) -> tuple[str, str]:
    cursor = ""
    async for line in lines:
        if line.startswith("id: "):
            cursor = line[4:]
        if line.startswith("data: "):
            body = json.loads(line[6:])
            assert body["id"] == cursor
            return cursor, body["goal"]
    raise AssertionError("the stream has ended")
