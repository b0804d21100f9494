"""Records what a model server sends, byte for byte, for `tests/integration/models/recorded`.

    python -m tests.support.models.record_server http://127.0.0.1:4000/v1 MODEL "what is 6*7?" --tool > FILE.http

Only a server without TLS, and without a key that matters: look at the file before you keep it.
"""

import argparse
import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 60.0
_TOOL = {
    "type": "function",
    "function": {
        "name": "calculator",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
    },
}


def request_of(url: str, model: str, text: str, *, tool: bool) -> bytes:
    """A request as `OpenAIChat` sends it, on a connection that ends with its answer."""
    parts = urlsplit(url)
    asked: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    asked |= {"tools": [_TOOL]} if tool else {}
    body = json.dumps(asked | {"messages": [{"role": "user", "content": text}]}).encode()
    head = [
        f"POST {parts.path.rstrip('/')}/chat/completions HTTP/1.1",
        f"Host: {parts.netloc}",
        "Authorization: Bearer none",
        "Content-Type: application/json",
        "Accept-Encoding: identity",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


async def recorded(url: str, request: bytes) -> bytes:
    """All that the server answers."""
    parts = urlsplit(url)
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    return answer


def main() -> None:
    """Write the answer to the standard output."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.models.record_server", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--tool", action="store_true", help="offer a tool")
    given = parser.parse_args()
    request = request_of(given.url, given.model, given.text, tool=given.tool)
    sys.stdout.buffer.write(asyncio.run(recorded(given.url, request)))


if __name__ == "__main__":
    main()
