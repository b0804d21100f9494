"""A session's events as server-sent events: all of them, or those of one turn."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pentad.contracts.errors import ErrorCode
from pentad.services.gateway.domain.waited_turn import TurnFilter
from pentad.services.gateway.http import tenant_of
from pentad.services.gateway.parts import Parts
from pentad.services.gateway.problems import bad
from pentad.shared.cancelling import cancel_all
from pentad.shared.events.deltas import StreamEvent
from pentad.shared.events.subscription import (
    BadCursorError,
    CursorExpiredError,
    SlowReaderError,
    Subscription,
    parse_cursor,
)
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request

HEARTBEAT_S = 15.0
"""A silent stream says this often that it is alive, so that proxies keep it."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def get_events(parts: Parts, request: "Request") -> "EventStream":
    """After ``Last-Event-ID`` or ``?after``; without them from the oldest kept."""
    keys = parts.session(tenant_of(request), request.path_params["session"])
    text = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    try:
        cursor = parse_cursor(text)
    except BadCursorError as error:
        raise bad(str(error)) from None
    return EventStream(parts, keys, await parts.subscribe(keys, cursor))


class EventStream:
    """The response: an ASGI app that lasts until the client leaves, reads too slowly, or the gateway stops.

    With ``turn`` it has the events of that turn alone, and ends with it.
    """

    def __init__(
        self, parts: Parts, keys: SessionKeys, subscription: Subscription, turn: TurnFilter | None = None
    ) -> None:
        self._parts, self._keys, self._subscription, self._turn = parts, keys, subscription, turn

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "HEAD":
            self._subscription.close()
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return
        tasks = {
            asyncio.create_task(self._write(send)),
            asyncio.create_task(_until_gone(receive)),
            asyncio.create_task(self._parts.closing.wait()),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._subscription.close()
            await cancel_all(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
                raise error
        await send({"type": "http.response.body", "body": b""})

    async def _write(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async for block in self._blocks():
            await send({"type": "http.response.body", "body": block, "more_body": True})

    async def _blocks(self) -> AsyncIterator[bytes]:
        yield b": hello\n\n"
        if self._subscription.expired:
            yield await self._gap("the cursor is older than what is kept, or of another history")
        while self._turn is None or not self._turn.over:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    events = await self._subscription.read()
                yield b"".join(map(_block, filter(self._takes, events)))
            except TimeoutError:
                yield b": alive\n\n"
            except CursorExpiredError as error:
                yield await self._gap(str(error))
            except SlowReaderError:
                return

    def _takes(self, event: StreamEvent) -> bool:
        return self._turn is None or self._turn.takes(from_json(event.data))

    async def _gap(self, why: str) -> bytes:
        position = self._subscription.position
        error = self._parts.error(self._keys, ErrorCode.CURSOR_EXPIRED, why)
        snapshot = await self._parts.snapshot(self._keys, position)
        if self._turn is not None:
            self._turn.takes(from_json(snapshot))
        return f"data: {error}\n\nid: {position.decode()}\ndata: {snapshot}\n\n".encode()


def _block(event: StreamEvent) -> bytes:
    return f"id: {event.id.decode()}\ndata: {event.text}\n\n".encode()


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
