"""Records what a model server sends, byte for byte, for `tests/integration/models/recorded`.

    python -m tests.support.models.record_server http://127.0.0.1:4000/v1 MODEL "what is 6*7?" --tool > FILE.http

`--tool` may be followed by the JSON schema of its arguments, `--most N` asks for so many tokens. `--embed` asks for the
text's vector instead, `--models` for the list of models; `--anthropic` in Anthropic's protocol.
Only a server without TLS, and without a key that matters: look at the file before you keep it.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 60.0
_ARGUMENTS = '{"type": "object", "properties": {"expression": {"type": "string"}}}'


def request_of(url: str, path: str, asked: Mapping[str, Any] | None) -> bytes:
    """A request as the official client sends it, on a connection that ends with its answer; GET without a body."""
    parts = urlsplit(url)
    body = b"" if asked is None else json.dumps(asked).encode()
    head = [
        f"{'GET' if asked is None else 'POST'} {parts.path.rstrip('/')}{path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Authorization: Bearer none",
        "Content-Type: application/json",
        "Accept-Encoding: identity",
        "Connection: close",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def chat_of(model: str, texts: Sequence[str], *, arguments: str | None, most: int | None) -> dict[str, Any]:
    """What `OpenAIChat` asks. `arguments`: the JSON schema of an offered tool's."""
    asked: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if arguments is not None:
        function = {"name": "calculator", "parameters": json.loads(arguments)}
        asked["tools"] = [{"type": "function", "function": function}]
    asked |= {"max_tokens": most} if most else {}
    return asked | {"messages": [{"role": "user", "content": text} for text in texts]}


def message_of(model: str, texts: Sequence[str], *, arguments: str | None) -> dict[str, Any]:
    """What `AnthropicChat` asks."""
    asked: dict[str, Any] = {"model": model, "stream": True, "max_tokens": 999}
    if arguments is not None:
        asked["tools"] = [{"name": "calculator", "input_schema": json.loads(arguments)}]
    content = [{"type": "text", "text": text} for text in texts]
    return asked | {"messages": [{"role": "user", "content": content}]}


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
    parser.add_argument("text", nargs="+", help="a user message, or several in a row")
    parser.add_argument("--tool", nargs="?", const=_ARGUMENTS, help="offer a tool")
    parser.add_argument("--most", type=int, help="tokens of the answer")
    parser.add_argument("--embed", action="store_true", help="ask for a vector")
    parser.add_argument("--anthropic", action="store_true", help="ask in its protocol")
    parser.add_argument("--models", action="store_true", help="ask for the models")
    given = parser.parse_args()
    if given.models:
        request = request_of(given.url, "/models", None)
    elif given.embed:
        asked = {"model": given.model, "input": given.text, "encoding_format": "float"}
        request = request_of(given.url, "/embeddings", asked)
    elif given.anthropic:
        request = request_of(given.url, "/messages", message_of(given.model, given.text, arguments=given.tool))
    else:
        chat = chat_of(given.model, given.text, arguments=given.tool, most=given.most)
        request = request_of(given.url, "/chat/completions", chat)
    sys.stdout.buffer.write(asyncio.run(recorded(given.url, request)))


if __name__ == "__main__":
    main()
