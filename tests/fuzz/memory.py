"""What one connection makes the system grow by, whatever it sends: ``python -m tests.fuzz.memory``, by hand.

Runs ``pentad up`` and floods it, one connection after the other; prints the process's resident memory. Exits with
1 when it has grown by more than 60 MB.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.integration.service.raw_http import RawHttp
from tests.integration.service.test_connections import HANDSHAKE, frame
from tests.support.processes.crew import rss
from tests.support.processes.up import Up

ALLOWED_MB = 60
_FLOOD = 64 << 20
_TAKEN_AT_ONCE = 1 << 20
_PATIENCE_S = 8.0
"""Seconds for one flood: what the system takes no more of by then it leaves on the wire."""
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SHAKE = HANDSHAKE.replace(b"GET /", b"GET /v1/ws") + b"\r\n"


def _post(body: bytes) -> bytes:
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


FLOODS: Mapping[str, tuple[bytes, bytes]] = {
    "lines of a head": (GET, b"x:y\r\n" * 13_107),
    "one header": (GET + b"X: ", b"a" * 65_536),
    "an address": (b"GET /", b"a" * 65_536),
    "trailers": (CHUNKED + b"0\r\n", b"x:y\r\n" * 13_107),
    "a chunk's extension": (CHUNKED + b"1;", b"x" * 65_536),
    "a body in chunks": (CHUNKED, b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    "requests behind one another": (b"", (GET + b"\r\n") * 1_000),
    "bodies of a mebibyte": (b"", _post(b'{"content":"' + b"x" * 1_000_000 + b'"}')),
    "bodies of brackets": (b"", _post(b"[" * 1_000_000)),
    "pings without reading": (SHAKE, frame(9, b"x" * 125) * 500),
    "small frames without reading": (SHAKE, frame(1, b'{"type":"ping"}') * 500),
    "frames that cannot be read": (SHAKE, frame(1, b"{}") * 1_000),
    "pieces of frames": (SHAKE + frame(1, b"{", last=False), frame(0, last=False) * 5_000),
    "one frame that never ends": (SHAKE + frame(1, b"x", last=False), frame(0, b"x" * 60_000, last=False)),
    "no protocol at all": (b"", bytes(range(256)) * 256),
}


async def flood(address: str, begin: bytes, piece: bytes) -> int:
    """Send it until the system takes no more of it; returns the bytes that it took."""
    client, sent = await RawHttp.to(address), 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await client.send(begin)
            while sent < _FLOOD and (took := await client.flood(piece, _TAKEN_AT_ONCE)):
                sent += took
    await client.aclose()
    return sent


async def watched(pid: int, peak: list[float]) -> None:
    """Note the largest that it ever is."""
    while True:
        peak[0] = max(peak[0], rss(pid))
        await asyncio.sleep(0.02)


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Up(Path(folder), warm=False) as system:
        address = await system.ready()
        await flood(address, b"", GET + b"\r\n")  # what is imported at the first request is no flood's
        start = rss(system.pid)
        peak = [start]
        watching = asyncio.create_task(watched(system.pid, peak))
        print(f"at its start {start:.0f} MB")
        for name, (begin, piece) in FLOODS.items():
            sent = await flood(address, begin, piece)
            now = rss(system.pid)
            print(f"{name:32} {sent / 1e6:6.1f} MB sent, now {now:.0f} MB, so far at most {peak[0]:.0f} MB", flush=True)
        watching.cancel()
        grown = peak[0] - start
        print(f"grown by at most {grown:.0f} MB, allowed {ALLOWED_MB}")
        return int(grown > ALLOWED_MB)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
