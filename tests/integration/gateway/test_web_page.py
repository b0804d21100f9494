"""The page of ``examples/web``: its server gives it a token, with which its module talks to a gateway, in node too."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, opened, running, running_at
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_tokens import bearing, inbound
from tests.support.ports import free_port
from tests.support.processes.up import ROOT
from tests.support.waiting import PATIENCE_S, in_time, wait_until

WEB = ROOT / "examples" / "web"
NODE = shutil.which("node")
KEYS = "ka:acme"
OURS = ("PENTAD_", "LLM_", "EMBED_", "REDIS_", "PYTHONPATH")


def speaks_websocket() -> bool:
    """Whether the node of this machine has the WebSocket of browsers, by itself or by its flag."""
    if NODE is None:
        return False
    asked = [NODE, "--experimental-websocket", "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@asynccontextmanager
async def page_server(gateway: str, port: int, folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """The example's server as a process, and a visitor's browser, as far as cookies go."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WEB / "server.py"), gateway, str(port)),
        cwd=folder,
        env=kept | {"PENTAD_API_KEY": "ka", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(base_url=address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S) as http:
            await wait_until("the page's server", lambda: _answers(http))
            yield http
    finally:
        process.terminate()
        await process.communicate()


async def _answers(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/")).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.skipif(NODE is None, reason="there is no node on this machine to run the page's module in")
def test_the_module_shows_and_reconnects_as_it_says() -> None:
    done = subprocess.run(
        [str(NODE), "--test", "--test-timeout=20000", "."],
        cwd=WEB,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "\n# fail 0\n" in done.stdout
    assert int(done.stdout.partition("\n# pass ")[2].split()[0]) >= 15


async def test_the_server_gives_a_page_what_it_loads_and_a_token_of_its_visitor(
    redis_url: str, store: Store, tmp_path: Path
) -> None:
    port = free_port()
    site = f"http://127.0.0.1:{port}"
    async with (
        running(redis_url, pentad_api_keys=KEYS, pentad_cors_origins=site) as gateway,
        page_server(gateway.address, port, tmp_path) as http,
    ):
        html, module = await http.get("/"), await http.get("/chat.mjs")
        assert './chat.mjs"' in html.text
        assert module.headers["content-type"].startswith("text/javascript")
        first, again = (await http.post("/token")).json(), (await http.post("/token")).json()
        assert first["session_id"] == again["session_id"]
        async with httpx2.AsyncClient(base_url=site, verify=NO_TLS, trust_env=False) as other:
            stranger = await other.post("/token", headers={"Cookie": "visitor=../acme"})
        assert stranger.json()["session_id"] != first["session_id"]
        for site_of_form in ("cross-site", "same-site"):
            lured = await http.post("/token", headers={"Sec-Fetch-Site": site_of_form})
            assert (lured.status_code, "set-cookie" in lured.headers) == (403, False), "it would lose its session"
        assert (await http.post("/token", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200
        assert not any("ka" in text.split('"') for text in (html.text, module.text, json.dumps(first)))

        async with opened(
            gateway.address,
            f"session_id={first['session_id']}&after=0",
            **bearing(first["token"]),
            additional_headers={"Origin": site},
        ) as socket:
            await socket.send(type="message", content="hi", message_id="m1")
            assert (await socket.receive())["type"] == "accepted"
        asked = {"Origin": site, "Authorization": f"Bearer {first['token']}"}
        path = f"{gateway.address}/v1/sessions/{first['session_id']}/messages"
        read = await http.get(path, headers=asked)
        assert (read.status_code, read.headers["access-control-allow-origin"]) == (404, site), "nothing was routed yet"
    (message,) = await inbound(store)
    assert message["session_id"] == first["session_id"]
    assert message["user_id"] == first["session_id"].replace("web-", "visitor-")


async def test_without_a_gateway_the_page_is_told_so(tmp_path: Path) -> None:
    async with page_server(f"http://127.0.0.1:{free_port()}", free_port(), tmp_path) as http:
        refused = await http.post("/token")
    assert (refused.status_code, "no gateway answers" in refused.text) == (503, True)


@pytest.mark.skipif(not speaks_websocket(), reason="there is no node with a WebSocket on this machine")
async def test_the_page_goes_on_where_it_was_after_a_restart(redis_url: str, store: Store, tmp_path: Path) -> None:
    port, gateway_port = free_port(), free_port()
    gateway = f"http://127.0.0.1:{gateway_port}"
    told: list[dict[str, Any]] = []

    async def listen(process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            told.append(json.loads(line))

    async def entries(*wanted: list[str]) -> None:
        await wait_until(f"the page to show {wanted}", lambda: any(each.get("entries") == [*wanted] for each in told))

    async with page_server(gateway, port, tmp_path):
        async with running_at(gateway_port, redis_url, pentad_api_keys=KEYS):
            follow = str(ROOT / "tests" / "support" / "web" / "follow.mjs")
            program = [str(NODE), "--experimental-websocket", "--no-warnings", follow]
            process = await asyncio.create_subprocess_exec(
                *program, f"http://127.0.0.1:{port}", "what is 6*7?", stdout=subprocess.PIPE
            )
            listening = asyncio.create_task(listen(process))
            (message,) = await wait_until("the message", lambda: inbound(store))
            speaker = Speaker(store, message["session_id"], "acme")
            await speaker.routed(message["message_id"])
            await speaker.say("task_start", goal="what is 6*7?")
            asked = ["user", "what is 6*7?", ""]
            await speaker.delta("It is 4\U0001f600", 0)
            await entries(asked, ["answer", "It is 4\U0001f600", ""])
            await speaker.delta("Let me see.", 0, attempt=2)
            await speaker.say("message", step=1, attempt=2, content="Let me see.")
            await speaker.say("tool_call", tool_call_id="call-0-a", tool="calculator", args={"expression": "6*7"})
            called = ["tool", 'calculator({"expression":"6*7"})', "running"]
            await entries(asked, ["answer", "Let me see.", ""], called)
        await speaker.say("tool_result", tool_call_id="call-0-a", tool="calculator", result="42", ring=False)
        async with running_at(gateway_port, redis_url, pentad_api_keys=KEYS):
            await speaker.say("message", step=2, attempt=1, content="It is 42.")
            await speaker.say("task_end", status="completed", steps=2)
            async with in_time():
                await process.wait()
                await listening
    called[2] = "= 42"
    shown = [each["entries"] for each in told if "entries" in each]
    assert shown[-1] == [asked, ["answer", "Let me see.", ""], called, ["answer", "It is 42.", ""]]
    states = [each["state"] for each in told if each.get("state") in ("connected", "closed")]
    assert states == ["connected", "connected", "closed"]
    assert len(await inbound(store)) == 1, "the message was sent once"
