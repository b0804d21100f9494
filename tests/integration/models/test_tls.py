"""A model server over TLS, with a certificate of a house's own."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatRequest, ModelUnavailable
from tests.integration.models.conftest import USER

EVENTS = b'data: {"choices":[{"delta":{"content":"sealed"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(EVENTS), EVENTS)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this machine's address, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=a house", "-keyout", "key", "-out", "crt"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", *words], cwd=folder, check=True, capture_output=True)
    return folder / "crt"


@pytest.fixture
async def url(certificate: Path) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.write(ANSWER)
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def ask(url: str) -> str:
    client = OpenAIChat(url, None, "m")
    try:
        return (await client.stream(ChatRequest([USER], None, 20.0), lambda _kind, _text: None)).text
    finally:
        await client.aclose()


async def test_the_certificates_that_the_environment_names_count_for_a_server_on_this_machine_too(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelUnavailable, match="certificate"):
        await ask(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await ask(url) == "sealed"
