"""How frames leave: many in one write, never more than a reader takes, none after the end."""

import asyncio
import socket
import struct
from typing import Any

import uvloop
from websockets.asyncio.client import connect

from pentad.shared.service.http import HttpServer
from tests.support.waiting import wait_until


async def test_frames_of_one_turn_of_the_loop_leave_in_one_write() -> None:
    writes: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        transport = send.__self__.transport._transport
        write = transport.write

        def counted(data: bytes) -> None:
            writes.append(len(data))
            write(data)

        transport.write = counted
        await send({"type": "websocket.accept"})
        for _ in range(3):
            for _ in range(50):
                await send({"type": "websocket.send", "text": "x" * 1000})
            await asyncio.sleep(0)
        transport.write = write

    server = HttpServer(app)
    address = await server.start()
    async with connect(f"ws{address.removeprefix('http')}", proxy=None, compression=None) as client:
        assert [len(await client.recv()) for _ in range(150)] == [1000] * 150
    assert len(writes) == 3
    await server.stop()


async def test_who_does_not_read_holds_the_writer_back() -> None:
    """Also within one turn of the loop: what is kept of a session is written in one."""
    sent: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        for number in range(1000):
            await send({"type": "websocket.send", "text": "x" * 60_000})
            sent.append(number)

    server = HttpServer(app)
    address = await server.start()
    async with connect(f"ws{address.removeprefix('http')}", max_queue=1, proxy=None, compression=None) as client:
        await wait_until("the first frames", lambda: sent)
        assert len(sent) < 1000
        client.transport.abort()
    await server.stop()


def test_what_is_written_in_the_turn_of_a_reset_is_dropped_without_a_word() -> None:
    """On the loop that services run on: its transports raise once they are closed."""
    troubles: list[dict[str, Any]] = []
    ended = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        protocol = send.__self__
        lost = protocol.connection_lost

        def write_and_lose(error: Exception | None) -> None:
            protocol.transport.write(b"too late")
            lost(error)

        protocol.connection_lost = write_and_lose
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        ended.set()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: troubles.append(context))
        server = HttpServer(app)
        address = await server.start()
        client = await connect(f"ws{address.removeprefix('http')}", proxy=None, compression=None)
        held = client.transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing is then a reset
        client.transport.abort()
        await ended.wait()
        await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert troubles == []
