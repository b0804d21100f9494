"""The hooks in force over HTTP: the operator sees them, and ends one that no worker has any more."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.hooks import HookSpec
from pentad.shared.keys import HOOKS_PUBLISHED
from pentad.shared.presence.published import HOOKS, SILENT_MS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.support.waiting import PATIENCE_S

GUARD = HookSpec(name="rules.guard", kind="before_tool", timeout=2)


async def silent(store: Store) -> None:
    """Make the last beat of the hook older than that of a living worker."""
    raw = await store.call("HGET", HOOKS_PUBLISHED, GUARD.name)
    beat = int(raw.rpartition(b":")[2].rstrip(b"}"))
    await store.call("HSET", HOOKS_PUBLISHED, GUARD.name, raw.replace(b"%d" % beat, b"%d" % (beat - SILENT_MS - 1)))


async def test_hooks_are_listed_and_one_without_a_worker_is_removed(store: Store, http: httpx2.AsyncClient) -> None:
    assert (await http.get("/v1/hooks")).json() == {"items": [], "next": None}
    await HOOKS.publish(store, [GUARD])
    (hook,) = (await http.get("/v1/hooks")).json()["items"]
    assert (hook["name"], hook["kind"], hook["timeout"], hook["alive"]) == ("rules.guard", "before_tool", 2, True)
    assert "a tool-worker has this hook" in problem(await http.delete("/v1/hooks/rules.guard"), 409)
    await silent(store)
    assert [each["alive"] for each in (await http.get("/v1/hooks")).json()["items"]] == [False]
    assert (await http.delete("/v1/hooks/rules.guard")).status_code == 204
    assert (await http.get("/v1/hooks")).json()["items"] == []
    assert problem(await http.delete("/v1/hooks/rules.guard"), 404) == "there is no such hook"


async def test_the_command_line_lists_hooks_and_removes_one(
    store: Store, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "boss")
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway:
        assert await command(gateway, capsys, "hooks") == (0, "no hooks: docs/hooks.md says how to add one\n", "")
        await HOOKS.publish(store, [GUARD])
        code, out, _ = await command(gateway, capsys, "hooks")
        assert (code, out.splitlines()[1].split()) == (0, ["rules.guard", "before_tool", "0", "2", "s", "there", "all"])
        code, _, err = await command(gateway, capsys, "hooks", "remove", "rules.guard")
        assert (code, "a tool-worker has this hook" in err) == (1, True)
        await silent(store)
        _, out, _ = await command(gateway, capsys, "hooks", "--json")
        assert json.loads(out)["alive"] is False
        assert "none for 1 min" in (await command(gateway, capsys, "hooks"))[1]
        code, out, _ = await command(gateway, capsys, "hooks", "remove", "rules.guard")
        assert (code, out) == (0, "rules.guard is removed: tasks go on without it\n")
        code, _, err = await command(gateway, capsys, "hooks", "remove", "rules.guard")
        assert (code, "`pentad hooks` lists them" in err) == (1, True)


@pytest.mark.parametrize("name", ["%20", "%2e%2e", "x" * 2_000, "a%00b", "rules.guard%0d%0a"])
async def test_what_is_no_hook_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    problem(await http.delete(f"/v1/hooks/{name}"), 404)


async def test_hooks_are_the_operators(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with (
        running(redis_url, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, look, change in ((None, 401, 401), ("k", 403, 403), ("boss", 200, 404)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await http.get("/v1/hooks", headers=headers)).status_code == look
            assert (await http.delete("/v1/hooks/rules.guard", headers=headers)).status_code == change
