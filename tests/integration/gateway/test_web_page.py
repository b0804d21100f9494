"""The page of ``examples/web``: its server gives it a token, with which its module talks to a gateway, in node too."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import expect

from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, opened, running, running_at
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_tokens import bearing, inbound
from tests.support.browser.chromium import open_page
from tests.support.javascript.driven import DrivenSession
from tests.support.javascript.node_tests import NO_NODE, NODE, passed_in_node
from tests.support.ports import free_port
from tests.support.processes.up import ROOT
from tests.support.waiting import in_time, wait_until
from tests.support.web.page_server import WEB, page_server

KEYS = "ka:acme"
_BY_SERVER_SENT_EVENTS = """(async () => {
  const { connect } = await import("./pentad.js")
  const getToken = async () => (await fetch("/token", { method: "POST" })).json()
  const session = connect({ getToken, transport: "sse" }).session()
  for await (const { type } of session.events()) if (type === "task_end") break
  session.close()
  return session.state.tasks["task-0-abc"].steps.map(({ text }) => text)
})()"""
"""Script that reads the visitor's session over the transport that the page does not use."""


@pytest.mark.skipif(NODE is None, reason=NO_NODE)
def test_the_module_shows_a_session_as_it_says() -> None:
    assert passed_in_node(WEB) >= 4


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
        assert (await http.get("/pentad.js")).headers["location"] == f"{gateway.address}/pentad.js"
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


@pytest.mark.skipif(NODE is None, reason=NO_NODE)
@pytest.mark.parametrize("flags", [(), ("--experimental-websocket",)], ids=["server-sent events", "WebSocket"])
async def test_the_page_goes_on_where_it_was_after_a_restart(
    redis_url: str, store: Store, tmp_path: Path, flags: tuple[str, ...]
) -> None:
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
            program = [str(NODE), *flags, "--no-warnings", follow]
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


async def test_in_a_browser_the_page_shows_text_as_text_and_survives_a_restart(
    redis_url: str, store: Store, tmp_path: Path
) -> None:
    port, gateway_port = free_port(), free_port()
    gateway, site = f"http://127.0.0.1:{gateway_port}", f"http://127.0.0.1:{port}"
    settings = {"pentad_api_keys": KEYS, "pentad_cors_origins": site}
    lost = ("WebSocket", "Failed to load resource")
    async with (
        page_server(gateway, port, tmp_path),
        open_page(site, go=False, also=[gateway], allowed=lost) as page,
    ):
        shown, field = page.locator("body"), page.locator("form input")
        async with running_at(gateway_port, redis_url, **settings):
            await page.goto(site)
            await expect(shown).to_contain_text("connected")
            await field.fill("what is <b>6*7</b>?")
            await field.press("Enter")
            (message,) = await wait_until("the message", lambda: inbound(store))
            speaker = Speaker(store, message["session_id"], "acme")
            await speaker.routed(message["message_id"])
            await speaker.say("task_start", goal="what is 6*7?")
            await speaker.delta("half of \U0001f600", 0)
            await expect(shown).to_contain_text("half of \U0001f600")
            evil = "<img src=x onerror='window.hurt = 1'><script>window.hurt = 1</script>"
            await speaker.delta(evil, 0, attempt=2)
            await expect(shown).to_contain_text(evil)
            await expect(shown).not_to_contain_text("half")
        await expect(shown).to_contain_text("reconnecting")
        async with running_at(gateway_port, redis_url, **settings):
            await speaker.say("message", step=1, attempt=2, content=f"{evil} It is 42.")
            await speaker.say("task_end", status="completed", steps=1)
            await expect(shown).to_contain_text("It is 42.")
            await expect(shown).to_contain_text("connected")
            await field.fill("and again?")
            await field.press("Enter")
            await wait_until("the other message", lambda: _has_two(store))
            await expect(shown).to_contain_text("and again?")
            assert await page.evaluate(_BY_SERVER_SENT_EVENTS) == [f"{evil} It is 42."]
            assert await page.evaluate("window.hurt") is None
    first, second = await inbound(store)
    assert (first["content"], second["content"]) == ("what is <b>6*7</b>?", "and again?"), "each was sent once"
    assert first["session_id"] == second["session_id"]


async def _has_two(store: Store) -> bool:
    return len(await inbound(store)) == 2


@pytest.mark.skipif(NODE is None, reason=NO_NODE)
@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_session_outlives_its_tokens(redis_url: str, store: Store, transport: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as gateway:
        options = {"transport": transport, "key": "ka", "ttl_s": 1}
        async with DrivenSession(gateway.address, "s1", **options) as client:
            speaker = Speaker(store, "s1", "acme")
            await client.do("send", text="hi", messageId="m1")
            await speaker.routed("m1")
            for step in range(1, 4):
                await speaker.delta(f"step {step}", 0, step=step)
                await client.more_told()  # another token
                await speaker.say("message", step=step, attempt=1, content=f"step {step}.")
            await speaker.say("task_end", status="completed", steps=3)
            await wait_until("the turn", lambda: client.turns)
            state = await client.do("state")
    assert [step["text"] for step in state["tasks"]["task-0-abc"]["steps"]] == ["step 1.", "step 2.", "step 3."]
    assert [e["step"] for e in client.events if e["type"] == "message"] == [1, 2, 3]
    assert "closed" not in client.statuses
