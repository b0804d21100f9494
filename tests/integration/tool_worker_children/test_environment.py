"""What tools see of the worker's environment: what they need and name, never our keys."""

import json

import pytest

from pentad.services.tool_worker.children.pool import ToolProcesses
from tests.integration.tool_worker_children.conftest import PLUGIN, Tools

SECRETS = ("LLM_API_KEY", "EMBED_API_KEY", "PENTAD_API_KEYS", "PENTAD_ADMIN_KEY", "PENTAD_API_KEY", "REDIS_URL")


async def seen(*variables: str) -> dict[str, str]:
    pool = ToolProcesses((PLUGIN,), 1, 1, variables)
    await pool.start(lambda: None)
    try:
        found: dict[str, str] = json.loads(await Tools(pool).result("environment"))
        return found
    finally:
        await pool.stop(0)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, "DEEPSEEK_API_KEY", "OF_NOBODY", "SEEN_BY_NAME", "SEEN_BY_SETTING"):
        monkeypatch.setenv(name, "hunter2")
    for name in ("LC_TIME", "TZ", "https_proxy", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, "wanted")


async def test_tools_see_what_every_program_needs_and_what_they_name(worker: None) -> None:
    found = await seen("SEEN_BY_SETTING", "NOT_SET")
    told = {name for name, value in found.items() if value == "hunter2"}
    assert told == {"SEEN_BY_NAME", "SEEN_BY_SETTING"}
    assert {name for name, value in found.items() if value == "wanted"} == {
        "LC_TIME",
        "TZ",
        "https_proxy",
        "SSL_CERT_FILE",
    }
    assert {"PATH", "HOME"} <= found.keys()
