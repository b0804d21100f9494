"""An operator has the memory rebuilt, over REST and in the terminal; an archiver of the same machine does it."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from pentad.cli import memory as memory_command
from pentad.cli import memory_rebuild
from pentad.errors import ClientError
from pentad.services.gateway.app import GatewayService
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.memory_counts import REBUILD
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.memory.rebuilt import Archive

TASK = TaskKeys(0, "acme", "task-0-1")
ARGS = argparse.Namespace(url=None, action="rebuild")


@pytest.fixture
async def archive(store: Store, tmp_path: Path) -> AsyncIterator[Archive]:
    """A task of a tenant without an API key was remembered, and the store of vectors is empty now."""
    made = Archive(store, tmp_path)
    await made.archive(TASK, [("user", "The boat is green.", None)])
    assert await made.look() == []
    await made.again("vectors")
    await made.look()
    yield made
    await made.aclose()


@pytest.fixture
async def archiver(archive: Archive) -> AsyncIterator[None]:
    """Who does it, for as long as the test runs."""
    loop = asyncio.create_task(archive.rebuilding.run())
    yield
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_the_terminal_shows_how_far_it_is_until_the_memory_is_rebuilt(
    gateway: GatewayService, archive: Archive, archiver: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(memory_command.run, ARGS, Settings(pentad_url=gateway.address)) == 0
    assert capsys.readouterr().out.endswith("the memory is rebuilt from 1 tasks\n")
    assert await archive.texts() == ["The boat is green."]


async def test_what_could_not_be_rebuilt_is_named(
    gateway: GatewayService, archive: Archive, archiver: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (archive.folder / "records" / "acme" / f"{TASK.task}.json").write_text("{")
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(memory_command.run, ARGS, Settings(pentad_url=gateway.address)) == 1
    *_, last, named = capsys.readouterr().out.splitlines()
    assert last == "the memory is rebuilt from 1 tasks, 1 failed"
    assert named.startswith(f"not rebuilt: {TASK.actor}: the record of task {TASK.task} cannot be read")


async def test_without_an_archiver_the_terminal_says_what_to_look_at(
    gateway: GatewayService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory_rebuild, "_PATIENCE_S", 0.0)
    settings = Settings(pentad_url=gateway.address)
    async with asyncio.timeout(30):
        with pytest.raises(ClientError, match="see that an archiver runs"):
            await memory_rebuild.rebuild(ARGS, settings)
    assert capsys.readouterr().out == "forgotten: 0 of 0 tasks\n"


async def test_it_is_begun_once_and_what_is_wrong_is_told_until_it_has_ended(
    gateway: GatewayService, http: httpx2.AsyncClient, archive: Archive
) -> None:
    before = (await http.get("/v1/memory/rebuild")).json()
    assert (before["stage"], before["started_at"]) == (None, None)
    assert [(each["store"], each["do"]) for each in before["damage"]] == [("vectors", REBUILD)]
    begun = await http.post("/v1/memory/rebuild")
    assert (begun.status_code, begun.json()["stage"]) == (202, "forgotten")
    await archive.rebuild(2)
    again = (await http.post("/v1/memory/rebuild")).json()
    assert again["started_at"] == begun.json()["started_at"], "one that goes on is not begun anew"
    await archive.rebuild()
    ended = (await http.get("/v1/memory/rebuild")).json()
    assert (ended["stage"], ended["done"], ended["total"], ended["damage"]) == ("ended", 1, 1, [])


async def test_it_needs_the_admin_key(redis_url: str, tmp_path: Path, archive: Archive, archiver: None) -> None:
    keys = {"pentad_api_keys": "us-key:us", "pentad_admin_key": "the-operator"}
    async with (
        running(redis_url, pentad_data_dir=tmp_path, **keys) as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=20) as http,
    ):
        for method in ("POST", "GET"):
            refused = await http.request(method, "/v1/memory/rebuild", headers={"authorization": "Bearer us-key"})
            assert refused.status_code == 403
        settings = Settings(
            pentad_url=service.address, pentad_api_key=SecretStr("us-key"), pentad_admin_key=SecretStr("the-operator")
        )
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(memory_command.run, ARGS, settings) == 0
