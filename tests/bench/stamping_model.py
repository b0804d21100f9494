"""A model whose tokens say when they were written: each is the monotonic clock in ns, the same for all processes.

``python -m tests.bench.stamping_model --tokens N --every MS`` prints its address.
"""

import argparse
import asyncio
import re
import time
from typing import cast

from tests.support.models import model_wire as wire
from tests.support.models.replies import say

_HEAD = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"stamping","choices":[{"index":0,'
_STAMP = re.compile(rb"\b(\d{12,19}) ")
THINKING_S = 0.03
"""Before the first token, so that what the turn did before it is over."""


def stamps(text: bytes) -> list[int]:
    """The times that a piece of an answer carries."""
    return [int(found) for found in _STAMP.findall(text)]


def stamp() -> str:
    """A token."""
    return f"{time.monotonic_ns()} "


def _token() -> bytes:
    return wire.chunk(_HEAD + b'"delta":{"content":"' + stamp().encode() + b'"},"finish_reason":null}]}\n\n')


def _end() -> bytes:
    """The last token and the end, in one write."""
    finish = _HEAD + b'"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    return _token() + wire.chunk(finish) + b"0\r\n\r\n"


class _Connection(asyncio.Protocol):
    def __init__(self, tokens: int, every_s: float) -> None:
        self._tokens, self._every = tokens, every_s
        self._buffer = b""
        self._playing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        parsed = wire.parse(self._buffer)
        if parsed is not None:
            self._buffer = parsed[2]
            self._playing = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        self._transport.write(wire.head(say("")))
        await asyncio.sleep(THINKING_S)
        for _ in range(self._tokens - 1):
            self._transport.write(_token())
            await asyncio.sleep(self._every)
        self._transport.write(_end())


async def _serve(tokens: int, every_ms: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(tokens, every_ms / 1000), "127.0.0.1", 0)
    print(f"ready on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--every", type=float, required=True, metavar="MS")
    options = parser.parse_args()
    uvloop.run(_serve(options.tokens, options.every))
