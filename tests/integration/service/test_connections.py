"""How many connections a port holds, and how long one may take: nobody has shown a key yet."""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from pentad.shared.service.connections import ConnectionLimits
from pentad.shared.service.http import HttpServer
from tests.integration.service.raw_http import RawHttp, exchange
from tests.support.waiting import wait_until

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
QUICK = ConnectionLimits(head_s=0.1, body_s=0.1, read_s=0.3, close_s=0.3, look_s=0.02)
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + base64.b64encode(b"0" * 16) + b"\r\n"
)
BIG = b"a" * (8 << 20)


class App:
    """Answers a request once its body is whole; a WebSocket is accepted and listened to."""

    def __init__(self) -> None:
        self.open = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.open += 1
        try:
            await (self._socket if scope["type"] == "websocket" else self._request)(scope, receive, send)
        finally:
            self.open -= 1

    async def _request(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
        if scope["path"] == "/waits":
            await receive()
        body = BIG if scope["path"] == "/big" else b"ok"
        size = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": size})
        await send({"type": "http.response.body", "body": body})

    async def _socket(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message.get("text") or str(len(message["bytes"]))})


@pytest.fixture
def app() -> App:
    return App()


@asynccontextmanager
async def serving(app: App, limits: ConnectionLimits) -> AsyncIterator[str]:
    server = HttpServer(app, grace_s=1, limits=limits)
    try:
        yield await server.start()
    finally:
        await server.stop()


async def send_for_ever(client: RawHttp, byte: bytes) -> None:
    while True:
        await client.send(byte)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("begin", "status"), [(b"", 0), (GET[:20], 408), (POST, 408), (GET + GET[:20], 200)])
@pytest.mark.parametrize("trickles", [False, True])
async def test_who_does_not_go_on_asking_is_hung_up_on(app: App, begin: bytes, status: int, trickles: bool) -> None:
    async with serving(app, QUICK) as address:
        client = await RawHttp.to(address)
        await client.send(begin)
        trickle = asyncio.create_task(send_for_ever(client, b"0" if begin and trickles else b""))
        said, data = await client.answer()
        trickle.cancel()
        await client.aclose()
        assert said == status
        assert data.count(b"408 ") == (1 if begin not in (b"",) else 0)
        await wait_until("the app to be done", lambda: app.open == 0)


async def test_an_answer_that_takes_its_time_is_waited_for(app: App) -> None:
    async with serving(app, QUICK) as address:
        client = await RawHttp.to(address)
        await client.send(b"GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(TimeoutError):
            await client.answer(0.5)
        await client.aclose()


async def test_idle_connections_make_room_for_one_that_asks(app: App) -> None:
    async with serving(app, replace(QUICK, head_s=60, most=8)) as address:
        idle = [await RawHttp.to(address) for _ in range(40)]
        assert (await exchange(address, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[0] == 200
        for one in idle:
            await one.aclose()


@pytest.mark.parametrize("limits", [replace(QUICK, most=3), replace(QUICK, of_one_address=3)], ids=["in all", "of one"])
async def test_when_all_are_at_work_a_new_one_is_told_to_come_back(app: App, limits: ConnectionLimits) -> None:
    async with serving(app, limits) as address:
        working = [await RawHttp.to(address) for _ in range(3)]
        for one in working:
            await one.send(b"GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wait_until("all to be at work", lambda: app.open == 3)
        status, data = await exchange(address, b"")
        assert status == 503
        assert "come back later" in json.loads(data.partition(b"\r\n\r\n")[2])["detail"]
        for one in working:
            await one.aclose()
        await wait_until("their places to be free", lambda: app.open == 0)
        assert (await exchange(address, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[0] == 200


async def test_many_requests_at_once_are_answered_in_order_and_wait_as_bytes(app: App) -> None:
    async with serving(app, replace(QUICK, head_s=30, read_s=30)) as address:
        client = await RawHttp.to(address)
        begun = asyncio.create_task(client.send(GET * 5_000 + POST.replace(b"9999", b"4") + b"body" + GET))
        await client.reader.readuntil(b"ok")
        (ours,) = server_ends(address)
        protocol = ours.get_protocol()
        assert len(protocol.pipeline) <= 4096 / len(GET) + 1
        for _ in range(5_001):
            await client.reader.readuntil(b"ok")
        await begun
        await wait_until("all to be answered", lambda: app.open == 0)
        await client.aclose()


async def test_what_comes_behind_a_request_that_takes_its_time_is_left_on_the_wire(app: App) -> None:
    async with serving(app, replace(QUICK, head_s=30, read_s=30)) as address:
        client = await RawHttp.to(address)
        await client.send(b"GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wait_until("it to be at work", lambda: app.open == 1)
        flood = asyncio.create_task(client.flood(GET * 2_000, 64 << 20))
        (ours,) = server_ends(address)
        protocol = ours.get_protocol()
        await wait_until("requests to wait as bytes", lambda: protocol._rest)
        assert len(protocol.pipeline) <= 4096 / len(GET) + 1
        assert len(protocol._rest) < 1 << 20
        assert not flood.done()
        flood.cancel()
        await client.aclose()


async def test_who_does_not_read_the_answer_is_hung_up_on(app: App) -> None:
    async with serving(app, QUICK) as address:
        client = await RawHttp.to(address)
        client.stop_reading()
        await client.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await wait_until("the request to arrive", lambda: server_ends(address))
        await wait_until("the connection to be gone", lambda: not server_ends(address))
        client.go_on_reading()
        assert len((await client.answer())[1]) < len(BIG)
        await client.aclose()


def frame(opcode: int, data: bytes = b"", *, last: bool = True) -> bytes:
    head = bytes([(0x80 if last else 0) | opcode])
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
    return head + size + b"\0\0\0\0" + data


async def test_pings_of_a_client_that_does_not_read_are_not_kept(app: App) -> None:
    async with serving(app, replace(QUICK, read_s=30.0)) as address:
        client = await RawHttp.to(address)
        await client.send(HANDSHAKE + b"\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        client.stop_reading()
        flood = frame(9, b"p" * 125) * 500
        took = await client.flood(flood, 12 << 20)
        assert took >= 12 << 20, "it goes on reading, for it must hear when the client leaves"
        (ours,) = server_ends(address)
        assert ours.get_write_buffer_size() < 1 << 20
        await client.aclose()
        await wait_until("the app to be done", lambda: app.open == 0)


def server_ends(address: str) -> list[Any]:
    """The server's ends of the open connections to this address."""
    port = int(address.rpartition(":")[2])
    loop: Any = asyncio.get_running_loop()
    ends = list(loop._transports.values())
    here = [end for end in ends if (end.get_extra_info("sockname") or ("", 0))[1] == port]
    return [end for end in here if not end.is_closing()]


async def test_pieces_without_content_do_not_add_up(app: App) -> None:
    async with serving(app, QUICK) as address, connect(f"ws{address[4:]}", proxy=None, compression=None) as client:
        await client.send("still here")
        assert await client.recv() == "still here"
        raw: Any = client.transport
        raw.write(frame(2, b"ab", last=False) + frame(0, last=False) * 20_000 + frame(0, b"c"))
        assert await client.recv() == "3"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"Cookie: " + b"a" * 9_000 + b"\r\n", 431),
        (b"".join(b"X%d: y\r\n" % n for n in range(140)), 431),
        (b"Cookie: " + b"a" * 70_000 + b"\r\n", 431),
        (b"Sec-WebSocket-Key: again\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n", 400),
        (b"Content-Length: 5\r\n", 400),
    ],
    ids=["a long line", "many lines", "a long head", "two keys", "a body in chunks", "a body"],
)
async def test_a_handshake_that_is_refused_is_told_so(app: App, more: bytes, status: int) -> None:
    async with serving(app, QUICK) as address:
        said, data = await exchange(address, HANDSHAKE + more + b"\r\n")
        head, _, body = data.partition(b"\r\n\r\n")
        assert said == status
        assert b"application/problem+json" in head
        assert json.loads(body)["status"] == status
        assert app.open == 0
