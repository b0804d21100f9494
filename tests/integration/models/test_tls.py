"""A model server over TLS, with a certificate of a house's own: both transports trust what the environment names."""

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


class Sealed:
    """A server over TLS that answers every request alike and counts what comes."""

    def __init__(self) -> None:
        self.url, self.connections = "", 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await read_request(reader))
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
    return head


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
async def sealed(certificate: Path) -> AsyncIterator[Sealed]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    made = Sealed()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        made.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield made


async def ask(url: str, *, direct: bool, times: int = 1) -> list[str]:
    client = OpenAIChat(url, "a-long-secret-key", "m", direct=direct)
    request = ChatRequest([USER], None, 20.0)
    try:
        return [(await client.stream(request, lambda _kind, _text: None)).text for _ in range(times)]
    finally:
        await client.aclose()


async def test_the_certificates_that_the_environment_names_count_for_a_server_on_this_machine_too(
    sealed: Sealed, certificate: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    with pytest.raises(ModelUnavailable, match="certificate"):
        await ask(sealed.url, direct=direct)
    assert sealed.heads == [], "nothing is said to a server whose certificate nobody knows"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    before = sealed.connections
    assert await ask(sealed.url, direct=direct, times=3) == ["sealed"] * 3
    assert sealed.connections - before == 1, "one connection for all"


async def test_a_certificate_of_another_name_is_refused(
    sealed: Sealed, certificate: Path, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ModelUnavailable, match="certificate"):
        await ask(sealed.url.replace("127.0.0.1", "localhost"), direct=direct)
    assert sealed.heads == []
