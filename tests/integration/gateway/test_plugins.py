"""Reloads of plug-ins over HTTP and on the command line: who may ask, and what is told of each worker."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from pentad.shared.presence.plugin_reloads import WorkerPlugins, last_request, report_plugins
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.integration.gateway.test_tool_servers import asking
from tests.support.waiting import wait_until


async def report(
    store: Store, worker: str, word: str = "", error: str | None = None, *, is_running: bool = False
) -> None:
    told = WorkerPlugins(at=await store.clock(), modules=("m",), word=word, running=is_running, error=error)
    await report_plugins(store, worker, told)


async def asked(store: Store, before: str = "") -> str:
    """Wait for a request, and return its word."""

    async def found() -> str | None:
        request = await last_request(store)
        return request.word if request is not None and request.word != before else None

    return str(await wait_until("a request", found))


async def test_a_reload_tells_of_each_worker(store: Store, http: httpx2.AsyncClient) -> None:
    nobody = await http.post("/v1/plugins/reload")
    assert (nobody.status_code, nobody.json()["done"], nobody.json()["workers"]) == (200, True, [])
    assert "set PENTAD_PLUGINS" in nobody.json()["warning"]
    before = nobody.json()["reload"]
    for name in "abc":
        await report(store, name, before)
    posting = asyncio.create_task(http.post("/v1/plugins/reload", params={"wait": 30}))
    word = await asked(store, before)
    await report(store, "a", word)
    await report(store, "b", before, is_running=True)
    shown = (await http.get("/v1/plugins")).json()
    assert [each["state"] for each in shown["workers"]] == ["done", "running", "waiting"]
    assert shown["done"] is False
    await report(store, "b", word)
    await report(store, "c", word, "plugin 'm' does not import: SyntaxError")
    told = await posting
    assert (told.status_code, told.json()["done"], told.json()["warning"]) == (200, True, None)
    assert told.json()["workers"][2] == {
        "worker": "c",
        "state": "failed",
        "modules": ["m"],
        "error": "plugin 'm' does not import: SyntaxError",
    }


async def test_a_reload_that_goes_on_is_told_after_the_wait(store: Store, http: httpx2.AsyncClient) -> None:
    await report(store, "a")
    told = await http.post("/v1/plugins/reload", params={"wait": 0})
    assert (told.status_code, told.json()["workers"][0]["state"]) == (202, "waiting")
    assert (
        problem(await http.post("/v1/plugins/reload", params={"wait": "nan"}), 422)
        == "wait must be a number of seconds"
    )


async def test_only_the_operator_reloads_and_sees_why_one_failed(store: Store, redis_url: str) -> None:
    async with asking(redis_url, pentad_api_keys="k:acme", pentad_admin_key="boss") as http:
        await report(store, "a", error="the path of a secret file")
        http.headers["authorization"] = "Bearer k"
        assert "admin key" in problem(await http.post("/v1/plugins/reload"), 403)
        assert await last_request(store) is None
        assert (await http.get("/v1/plugins")).json()["workers"][0]["error"] is None
        http.headers["authorization"] = "Bearer boss"
        assert (await http.get("/v1/plugins")).json()["workers"][0]["error"] == "the path of a secret file"


async def test_the_command_line_reloads_and_says_who_failed(
    store: Store, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "boss")
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway:
        await report(store, "a")
        reloading = asyncio.create_task(command(gateway, capsys, "plugins", "reload", "--wait", "30"))
        await report(store, "a", await asked(store), "it does not import")
        code, out, err = await reloading
        assert (code, err) == (1, "")
        assert out.splitlines()[1].split(maxsplit=3) == ["a", "failed", "m", "it does not import"]
        code, out, _ = await command(gateway, capsys, "plugins", "--json")
        assert (code, json.loads(out)["workers"][0]["state"]) == (0, "failed")
        _, out, _ = await command(gateway, capsys, "doctor")
        assert "a runs older code, because the new does not import" in out
