"""Which model answers, asked of a server on a socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pentad.cli.doctor import embedding_finding, model_finding
from shared.settings import Settings


@asynccontextmanager
async def listing(status: str, body: Any) -> AsyncIterator[str]:
    """A server that answers every request alike; its base URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + data)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


TWO = {"data": [{"id": "small"}, {"id": "large"}]}


@pytest.mark.parametrize(
    ("status", "body", "wanted", "level", "words"),
    [
        ("200 OK", TWO, None, "ok", "small at http://127.0.0.1"),
        ("200 OK", TWO, "large", "ok", "large at http://127.0.0.1"),
        ("200 OK", TWO, "huge", "warn", "does not list huge"),
        ("200 OK", {"data": []}, None, "fail", "lists no model"),
        ("200 OK", {"data": [7]}, "large", "ok", "large at"),
        ("401 Unauthorized", {"error": {"message": "bad key"}}, "large", "fail", "bad key"),
    ],
)
async def test_the_endpoint_says_which_model_answers(
    status: str, body: Any, wanted: str | None, level: str, words: str
) -> None:
    async with listing(status, body) as url:
        found = await model_finding(Settings.model_validate({"llm_base_url": url, "llm_model_id": wanted}))
    assert found.level == level
    assert words in found.detail


async def test_without_an_endpoint_the_offline_model_is_named_as_what_it_is() -> None:
    found = await model_finding(Settings())
    assert (found.level, "offline model" in found.detail, "LLM_BASE_URL" in found.do) == ("note", True, True)


@pytest.mark.parametrize(("kind", "level"), [("simple", "ok"), ("openai", "ok")])
def test_what_embeds_is_named(kind: str, level: str) -> None:
    assert embedding_finding(Settings.model_validate({"embed_model_type": kind})).level == level
