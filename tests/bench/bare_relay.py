"""The least that relays: redis-py reads many streams, a socket each takes the frames.

``python -m tests.bench.bare_relay REDIS_URL PORT TASKS``
"""

import asyncio
import sys
from typing import Any

from redis.asyncio import Redis

from pentad.shared.keys import SessionKeys
from tests.bench.relay_feed import session_name


def _frame(entry_id: bytes, data: bytes) -> bytes:
    """An unmasked WebSocket text frame of the event with its id."""
    body = b'{"id":"%b",%b' % (entry_id, data[1:])
    size = len(body)
    return b"\x81" + (bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")) + body


async def _relay(url: str, port: int, tasks: int) -> None:
    loop = asyncio.get_running_loop()
    redis: Any = Redis.from_url(url)
    cursors: dict[Any, Any] = {}
    sinks: dict[bytes, asyncio.Transport] = {}
    for number in range(tasks):
        key = SessionKeys(0, "default", session_name(number)).events.encode()
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        cursors[key], sinks[key] = "$", transport
    now = await redis.time()
    cursors = dict.fromkeys(cursors, f"{now[0] * 1000 + now[1] // 1000}-0")
    print("ready", flush=True)
    while True:
        for key, entries in await redis.xread(cursors, count=500, block=1000) or []:
            cursors[key] = entries[-1][0]
            sinks[key].write(b"".join(_frame(i, fields[b"data"]) for i, fields in entries))
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_relay(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
