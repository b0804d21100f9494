"""An operator has the memory embedded anew, over REST and in the terminal."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from pentad.cli import memory as memory_command
from pentad.cli import memory_reindex
from pentad.errors import ClientError
from pentad.services.archiver.memory_server import MemoryServer
from pentad.services.embedding.app import EmbeddingService
from pentad.services.gateway.app import GatewayService
from pentad.shared.memory.current_collection import CURRENT_ALIAS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.integration.gateway.conftest import running
from tests.integration.memory.serving import serving
from tests.integration.memory.test_archiver_memory import running as archiving
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.remembering import COLLECTION, remember
from tests.support.waiting import PATIENCE_S, wait_until
from tests.unit.segments.transcripts import said

OLD = "memory-of-another-model"


@pytest.fixture
async def memory(store: Store, tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    """Another model's collection counts; the one of the model in use has the task too."""
    vectors = EdgeVectors(tmp_path / "vectors")
    await vectors.prepare(OLD, 3)
    await remember(vectors, "default", "task-0-1", [said("The boat is green.")])
    await vectors.switch(CURRENT_ALIAS, OLD)
    async with serving(store, MemoryServer(store, vectors).handle):
        yield vectors
    await vectors.aclose()


async def test_the_terminal_switches_when_nothing_is_left(
    gateway: GatewayService, http: httpx2.AsyncClient, memory: EdgeVectors, capsys: pytest.CaptureFixture[str]
) -> None:
    looked = await http.post("/v1/memory/reindex", json={})
    told = {"collection": COLLECTION, "current": OLD, "tasks": 0, "left": 0, "next": None, "kept": None}
    assert (looked.status_code, looked.json()) == (202, told | {"waits_for": None})
    settings = Settings(pentad_url=gateway.address)
    args = argparse.Namespace(url=None, action="reindex", force=False)
    async with asyncio.timeout(20):
        assert await asyncio.to_thread(memory_command.run, args, settings) == 0
    assert capsys.readouterr().out == f"0 tasks left\nthe memory is {COLLECTION} now\n"
    assert [each.name for each in await memory.collections()] == [COLLECTION]


async def test_the_terminal_shows_the_admin_key_to_a_gateway_that_has_one(
    redis_url: str, tmp_path: Path, memory: EdgeVectors, capsys: pytest.CaptureFixture[str]
) -> None:
    """The route needs it, and the key of a tenant does not do instead."""
    keys = {"pentad_api_keys": "us-key:us", "pentad_admin_key": "the-operator"}
    async with running(redis_url, pentad_data_dir=tmp_path, **keys) as service:
        settings = Settings(
            pentad_url=service.address, pentad_api_key=SecretStr("us-key"), pentad_admin_key=SecretStr("the-operator")
        )
        args = argparse.Namespace(url=None, action="reindex", force=False)
        async with asyncio.timeout(20):
            assert await asyncio.to_thread(memory_command.run, args, settings) == 0
    assert [each.name for each in await memory.collections()] == [COLLECTION]


async def test_it_needs_the_admin_key(redis_url: str, tmp_path: Path) -> None:
    keys = {"pentad_api_keys": "us-key:us", "pentad_admin_key": "the-operator"}
    async with (
        running(redis_url, pentad_data_dir=tmp_path, **keys) as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=20) as http,
    ):
        refused = await http.post("/v1/memory/reindex", json={}, headers={"authorization": "Bearer us-key"})
    assert refused.status_code == 403


async def test_the_terminal_says_what_the_archiver_waits_for(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: an operator whose memory is not embedded anew reads why, as here that the records cannot be read."""
    before = EdgeVectors(tmp_path / "memory" / "vectors")
    await remember(before, "default", "task-0-1", [said("The boat is green.")])
    await before.switch(CURRENT_ALIAS, COLLECTION)
    await before.aclose()
    (tmp_path / "records").write_text("a file where the folder should be")
    async with ScriptedModel(lambda _: say("")) as server:
        asks = {"embed_model_type": "openai", "embed_base_url": server.base_url, "embed_model_name": "e"}
        settings = Settings.model_validate({"redis_url": store.url, "pentad_data_dir": tmp_path} | asks)
        embedding = EmbeddingService(settings)
        await embedding.start()
        try:
            async with (
                archiving(settings),
                running(store.url, pentad_data_dir=tmp_path, **asks) as service,
                httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
            ):

                async def waited_for() -> str | None:
                    asked = await http.post("/v1/memory/reindex", json={"queue": True})
                    told: str | None = asked.json().get("waits_for")
                    return told if told and "records" in told else None

                reason = await wait_until("the archiver to say what it waits for", waited_for)
                for name, seconds in (("_LOOK_S", 0.05), ("_QUIET_S", 0.0), ("_PATIENCE_S", 0.2)):
                    monkeypatch.setattr(memory_reindex, name, seconds)
                args = argparse.Namespace(url=None, action="reindex", force=False)
                with pytest.raises(ClientError) as failed:
                    await asyncio.to_thread(memory_command.run, args, Settings(pentad_url=service.address))
        finally:
            await embedding.stop()
    assert capsys.readouterr().out.splitlines() == [
        "1 tasks left",
        f"nothing has been embedded for 0 s: an archiver says: {reason}",
    ]
    assert f"1 tasks are not embedded, and nothing happens: an archiver says: {reason}" in str(failed.value)
