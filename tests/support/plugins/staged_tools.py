"""Tools that a test holds in its hand: they say that they have begun, and end when the test lets them."""

import asyncio
import struct
import zlib
from pathlib import Path

from pentad.shared.plugins.registry import tool


def _write(path: str, word: str) -> None:
    with open(path, "a", encoding="utf-8") as ledger:
        ledger.write(word + "\n")


@tool(effect="pure", timeout=120)
async def hold(mine: str, until: list[str], answer: str) -> str:
    """Writes ``begun`` into the file ``mine``, waits until all files of ``until`` exist, answers."""
    _write(mine, "begun")
    try:
        while not all(map(_exists, until)):
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        _write(mine, "stopped")
        raise
    return answer


def _exists(path: str) -> bool:
    return Path(path).exists()


@tool(effect="pure")
def picture() -> bytes:
    """Draws one grey point, as a PNG."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\x80")),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@tool(effect="pure", timeout=120)
async def wait_for_file(path: str) -> str:
    """Like ``hold``, with the one argument that the offline model can fill in: waits for a line ``go``.

    The test may write it as soon as the file is there: before our own line.
    """
    _write(path, "begun")
    while "go" not in _read(path).splitlines():
        await asyncio.sleep(0.005)
    return "the file says go"


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
