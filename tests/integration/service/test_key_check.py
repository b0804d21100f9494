"""A key that the model's endpoint does not know is told when the services start."""

import asyncio
import logging

import pytest

from pentad.contracts.models import ModelHealth
from pentad.shared.service.process_models import ProcessModels
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store

SECRET = "sk-wrong-key"


async def checked(store: Store, status: str) -> list[ModelHealth]:
    """How the model does after the check, where the endpoint answers with this status, and what it was sent."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /v1/models ")
        body = b'{"error":{"message":"Incorrect API key provided: sk-wrong-key"}}'
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    given = {"LLM_BASE_URL": f"http://127.0.0.1:{port}/v1", "LLM_API_KEY": SECRET, "LLM_MODEL_ID": "m"}
    models = ProcessModels(load_settings(given), store, "task-runner", "one")
    await models.check_key()
    await models.close()
    server.close()
    return models._look(await store.clock())


async def test_a_key_that_is_not_known_is_told_in_the_log_and_to_who_asks(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        [health] = await checked(store, "401 Unauthorized")
    assert (health.id, health.state, health.refused) == ("default", "open", True)
    assert "check the API key" in caplog.text
    assert SECRET not in caplog.text + str(health)


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden", "404 Not Found", "503 Unavailable"])
async def test_an_endpoint_that_lists_no_models_is_left_to_the_first_call(store: Store, status: str) -> None:
    """A key may be allowed to chat and not to list models."""
    [health] = await checked(store, status)
    assert (health.state, health.refused) == ("ok", False)
