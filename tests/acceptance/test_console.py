"""The console in a real browser: what people see of tasks, and what they do about them."""

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from playwright.async_api import Locator, Page, Route, expect
from redis.asyncio import Redis

from tests.support.browser.chromium import open_page
from tests.support.clients.api import Api
from tests.support.javascript.packages import installed
from tests.support.mcp.sign_in_server import SignInServer
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.cluster import Cluster
from tests.support.processes.stage import Stage, echo_asks, new_session, stage
from tests.support.redis.raw_redis import dead_letters
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance
_ADMIN = "root"
_OPERATOR = {"pentad.admin-key": _ADMIN}
_HOSTILE = (
    '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>[a](javascript:window.hurt=1)'
    '![](https://elsewhere.example/x.png)<svg onload="window.hurt=1"><iframe srcdoc="<script>parent.hurt=1</script>">'
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("console")
    plugins = {"PENTAD_PLUGINS": "tests.support.plugins.staged_tools,tests.support.plugins.polite_hook"}
    tools = plugins | {"PENTAD_WEB_ALLOW": "127.0.0.1", "PENTAD_SECRET_KEY": b64encode(bytes(32)).decode()}
    with stage(folder / "up", echo_asks(folder) | {"PENTAD_ADMIN_KEY": _ADMIN} | tools) as system:
        yield system


def at(system: Stage, *parts: str) -> str:
    """Address of a place in the console."""
    return f"{system.url}/console#/{'/'.join(parts)}"


async def send(page: Page, text: str, to: str | None = None) -> None:
    if to is not None:
        await page.get_by_role("combobox", name="To").select_option(to)
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


def messages(page: Page) -> Locator:
    return page.get_by_role("article", name="Message")


async def test_two_tasks_stream_side_by_side_and_a_message_is_moved_by_hand(console: Stage) -> None:
    gates = {"tea": asyncio.Event(), "sea": asyncio.Event()}

    def script(request: dict[str, Any]) -> Reply:
        text = str([m["content"] for m in request["messages"] if m["role"] == "user"][-1])
        word = next((word for word in gates if word in text), "")
        if not word:
            return say(f"about {text}")
        return say(f"a **text** about the {word}", chunks=6, wait=gates[word], wait_after=4)

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, "write of tea", "new")
        await expect(page.get_by_role("log")).to_contain_text("a text")
        await send(page, "write of the sea", "new")
        await page.get_by_role("link", name="Side by side").click()
        columns = page.locator(".column")
        await expect(columns).to_have_count(2)
        await expect(columns.nth(1)).to_contain_text("a text")
        gates["sea"].set()
        await expect(columns.nth(1)).to_contain_text("a text about the sea")
        assert "about the" not in await columns.nth(0).inner_text()
        gates["tea"].set()
        await expect(columns.nth(0)).to_contain_text("a text about the tea")
        await page.get_by_role("link", name="One stream").click()
        await send(
            page, "and of milk", await page.locator("option", has_text="write of tea").first.get_attribute("value")
        )
        await expect(page.get_by_role("log")).to_contain_text("about and of milk")
        moved = messages(page).filter(has_text="and of milk")
        await moved.drag_to(page.get_by_label("Tasks and files").locator("li.task").filter(has_text="write of the sea"))
        await expect(moved).to_contain_text("moved from")
        await moved.locator(".routing summary").click()
        await expect(moved.locator(".routing")).to_contain_text("sure")
        other = moved.get_by_label("Another task for the message")
        await other.select_option(label="write of tea")
        await expect(moved.get_by_text("moved from")).to_have_count(1)
        await moved.get_by_role("button", name="Move").click()
        await expect(moved.get_by_text("moved from")).to_have_count(2)
        beside = page.get_by_label("Tasks and files")
        await expect(beside.locator(".status:not(.completed)")).to_have_count(0)


async def test_a_call_is_edited_and_approved_and_another_refused(console: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        return say(f"told: {last['content']}") if last["role"] == "tool" else call(("echo", {"text": "secret"}))

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, "say it")
        waiting = page.get_by_role("group", name="Decision about echo")
        await waiting.get_by_role("button", name="Edit").click()
        await waiting.get_by_label("Arguments").fill('{"text": ')
        await expect(waiting.get_by_role("button", name="Approve as edited")).to_be_disabled()
        await waiting.get_by_label("Arguments").fill('{"text": "public"}')
        await waiting.get_by_role("button", name="Approve as edited").click()
        await expect(page.get_by_role("log")).to_contain_text("changed the arguments")
        await send(page, "say it again", "new")
        await waiting.get_by_label("Reason").fill("keep it")
        await waiting.get_by_role("button", name="Refuse").click()
        await expect(page.get_by_role("log")).to_contain_text("keep it")
        await expect(waiting).to_have_count(0)


async def test_calls_that_wait_for_their_application_are_told_apart_and_answered_by_hand(console: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] != "tool":
            return call(("get_place", {"exact": True}))
        return say(f"told: {last['content']}") if "again" not in str(last["content"]) else call(("get_place", {}))

    session = new_session()
    message = {"session_id": session, "content": "where am I?", "tools": [{"name": "get_place"}]}
    async with console.model(script), console.api() as api, open_page(at(console, "chat", session)) as page:
        await api.post("/v1/messages", message)
        waiting = page.get_by_role("group", name="Result of get_place")
        await expect(waiting).to_contain_text("waits for the application that asked")
        await expect(page.get_by_label("Tasks and files")).to_contain_text("waits for the application that asked")
        await waiting.get_by_text("Answer in its place").click()
        await waiting.get_by_role("textbox").fill("once again")
        await waiting.get_by_role("button", name="It has failed").click()
        await expect(page.get_by_role("log")).to_contain_text("once again")
        await expect(waiting).to_have_count(1)
        await waiting.get_by_text("Answer in its place").click()
        await waiting.get_by_role("textbox").fill("in Berlin")
        await waiting.get_by_role("button", name="Send the result").click()
        await expect(page.get_by_role("log")).to_contain_text("told: in Berlin")
        await expect(waiting).to_have_count(0)


async def test_a_task_is_stopped_and_another_paused_and_resumed(console: Stage) -> None:
    held = asyncio.Event()

    async with (
        console.model(lambda _: say("a long story", chunks=4, wait=held, wait_after=3)),
        open_page(at(console, "chat", new_session())) as page,
    ):
        beside = page.get_by_label("Tasks and files")
        await send(page, "begin")
        await expect(page.get_by_role("log")).to_contain_text("a long")
        await beside.get_by_role("button", name="Pause").click()
        await expect(beside).to_contain_text("paused")
        await beside.get_by_role("button", name="Resume").click()
        await expect(beside.get_by_role("button", name="Pause")).to_be_visible()
        await beside.get_by_role("button", name="Stop").click()
        await expect(beside).to_contain_text("cancelled")
        held.set()


async def test_a_step_shows_its_prompt_and_a_fork_from_it_is_compared(console: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "user" and "6*7" in str(last["content"]):
            return call(("calculator", {"expression": "6*7"}))
        return say(f"so: {last['content']}")

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, "what is 6*7?")
        await expect(page.get_by_role("log")).to_contain_text("so: 42")
        await page.get_by_role("article", name="Step 2").get_by_role("link").first.click()
        await expect(page.get_by_role("region", name="Step 2")).to_contain_text("so: 42")
        await page.get_by_role("link", name="Exact prompt").click()
        await expect(page.get_by_text("Word for word what the model was asked")).to_be_visible()
        await expect(page.locator(".said.tool")).to_contain_text("42")
        await page.get_by_role("button", name="1. scripted").click()
        await expect(page.get_by_role("region", name="Step 1")).to_contain_text("calculator")
        await page.get_by_role("button", name="Fork from here").click()
        await page.get_by_label("New message").fill("and then?")
        await page.get_by_role("button", name="Fork", exact=True).click()
        await page.get_by_role("link", name="Compare").click()
        await expect(page.get_by_text("The first 1 steps are the same; step 2 differs")).to_be_visible()
        await expect(page.locator(".two")).to_contain_text("so: and then?")
        await expect(page.locator(".two")).to_contain_text("so: 42")


async def test_what_a_hook_changed_in_a_prompt_is_seen_at_its_step(console: Stage) -> None:
    async def hooked() -> bool:
        """Task-runners know a hook within a second."""
        await send(page, "ask politely", "new")
        return await page.get_by_role("log").get_by_text("changed by 1").count() > 0

    def script(request: dict[str, Any]) -> Reply:
        return say(f"changed by {sum(m['content'] == 'Be polite.' for m in request['messages'])}")

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await wait_until("the hook", hooked)
        await (
            page.get_by_role("article", name="Step 1").filter(has_text="changed by 1").get_by_role("link").first.click()
        )
        step = page.get_by_role("region", name="Step 1", exact=True)
        await expect(step).to_contain_text("put this into the prompt before message 2")
        await expect(step.get_by_role("region", name="message of a hook")).to_contain_text("Be polite.")
        await expect(page.get_by_role("button", name="1. scripted · hooks")).to_be_visible()


async def test_a_memory_is_opened_at_its_sentence_added_to_and_forgotten(console: Stage) -> None:
    session = new_session()
    async with console.model(lambda _: say("I see.")), open_page(at(console, "chat", session)) as page:
        await send(page, "the boat of Ada is called Walrus and it is red")
        await expect(page.get_by_role("log")).to_contain_text("I see.")
        async with console.api() as api:
            await wait_until("the memory", lambda: _remembers(api, session))
        await page.goto(at(console, f"memory?q=boat&session_id={session}"))
        hit = page.locator("li.hit").filter(has_text="Walrus").first
        await hit.get_by_text("Score").click()
        await expect(hit.locator("meter").first).to_be_visible()
        await hit.get_by_role("link", name="Open the sentence").click()
        await expect(page.locator("mark")).to_contain_text("Walrus")
        await page.get_by_role("link", name="Memory").click()
        await page.get_by_role("button", name="Add what you know").click()
        await page.get_by_label("Text").fill("Walrus has two masts")
        await page.get_by_role("button", name="Add", exact=True).click()
        await page.get_by_role("link", name="Open it").click()
        await expect(page.get_by_role("heading", name="Walrus has two masts")).to_be_visible()
        await expect(page.locator(".graph canvas").first).to_be_visible()
        await page.goto(at(console, f"memory?q=boat&session_id={session}"))
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        before = await page.locator("li.hit").count()
        await hit.get_by_role("button", name="Forget").click()
        await expect(page.locator("li.hit")).not_to_have_count(before)


async def _remembers(api: Api, session: str) -> bool:
    found = await api.get(f"/v1/memory/search?q=boat&session_id={session}")
    return bool(found["hits"])


async def test_a_dead_letter_is_edited_and_sent_again(console: Stage) -> None:
    session = new_session()
    async with Redis.from_url(console.redis_url) as redis:
        await redis.xadd("pentad:inbound", {"data": json.dumps({"content": 7, "session_id": session})})
    await wait_until("the dead letter", lambda: dead_letters(console.redis_url))
    async with (
        console.model(lambda _: say("mended")),
        open_page(at(console, "operations", "dead-letters"), keys=_OPERATOR) as page,
    ):
        await page.get_by_role("region", name="Dead letters").get_by_role("link").first.click()
        sent = page.get_by_label("What is sent")
        body = json.loads(await sent.input_value())
        await sent.fill(json.dumps(body | {"content": "hello"}))
        await page.get_by_role("button", name="Redrive").click()
        await expect(page.get_by_text("It was sent again.")).to_be_visible()
        await page.goto(at(console, "chat", session))
        await expect(page.get_by_role("log")).to_contain_text("mended")


async def test_the_run_of_a_graph_is_watched(console: Stage) -> None:
    held = asyncio.Event()
    graph = {
        "name": "two_nodes",
        "nodes": [
            {"key": "draft", "kind": "llm", "system_prompt": "Write it."},
            {"key": "review", "kind": "llm", "system_prompt": "Judge it."},
        ],
        "edges": [{"from": "draft", "to": "review"}],
        "entry": "draft",
        "ends": ["review"],
    }

    def script(request: dict[str, Any]) -> Reply:
        if "Judge it." in str(request["messages"][0]["content"]):
            return say("good", wait=held)
        return say("a draft")

    async with console.model(script), open_page(at(console, "registries", "graphs"), keys=_OPERATOR) as page:
        await page.get_by_role("button", name="Add").click()
        await page.get_by_label("Entry").fill(json.dumps(graph))
        await page.get_by_role("button", name="Register").click()
        await page.get_by_role("link", name="two_nodes").click()
        await expect(page.get_by_role("region", name="Graph two_nodes").locator(".node")).to_have_count(4)
        async with console.api() as api:
            session = new_session()
            await api.post("/v1/messages", {"content": "go", "session_id": session, "instruction": "two_nodes"})
            task = await wait_until("the task", lambda: _task_of(api, session))
        await page.goto(at(console, "tasks", str(task)))
        path = page.get_by_role("region", name="Path through the graph")
        await expect(path.locator(".node.active")).to_contain_text("review")
        await expect(path.locator(".node.done")).to_contain_text("draft")
        held.set()
        await expect(path.locator(".node.done")).to_have_count(2)
        await expect(page.get_by_text("answered")).to_be_visible()
        await page.get_by_role("button", name="Archive now").click()
        await expect(page.get_by_text(re.compile("^archived"))).to_be_visible()
        await expect(page.get_by_role("button", name="Archive now")).to_have_count(0)
        await page.reload()
        await expect(path.locator(".node.done")).to_have_count(2)


async def test_a_session_that_is_erased_while_it_is_open_is_shown_no_more(console: Stage) -> None:
    session = new_session()
    async with console.model(lambda _: say("a secret")), open_page(at(console, "chat", session)) as page:
        await send(page, "tell me one")
        log = page.get_by_role("log")
        await expect(log).to_contain_text("a secret")
        await expect(page.get_by_label("Tasks and files")).to_contain_text("completed")
        async with console.api() as api:
            await api.delete(f"/v1/sessions/{session}", status=202)
        await expect(page.get_by_text("This session was erased")).to_be_visible()
        await expect(log).not_to_contain_text("a secret")
        for place in (log, page.get_by_label("Tasks and files"), page.get_by_label("Sessions")):
            await expect(place).not_to_contain_text("tell me one")
        await send(page, "begin anew")
        await expect(log).to_contain_text("a secret")
        await expect(log).not_to_contain_text("tell me one")


async def test_a_failed_task_tells_its_error_once(console: Stage) -> None:
    broken = fail(400, message="a broken model")
    async with console.model(lambda _: broken), open_page(at(console, "chat", new_session())) as page:
        await send(page, "try it")
        log = page.get_by_role("log")
        await expect(log).to_contain_text("The task ended as failed: model_error")
        assert (await log.inner_text()).count("a broken model") == 1


async def test_an_operator_adds_an_endpoint_tries_it_and_removes_it(console: Stage) -> None:
    endpoint = {"name": "alive", "description": "Whether it lives.", "url": f"{console.url}/healthz", "method": "GET"}
    refused = ("Failed to load resource",)
    async with open_page(at(console, "operations", "tools"), keys=_OPERATOR, allowed=refused) as page:
        await page.get_by_role("button", name="Add an endpoint").click()
        await page.get_by_label("As JSON").fill(json.dumps(endpoint | {"method": "BREW"}))
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("method")
        await page.get_by_label("As JSON").fill(json.dumps(endpoint))
        await page.get_by_role("button", name="Add", exact=True).click()
        row = page.get_by_role("region", name="Tools", exact=True).get_by_role("row").filter(has_text="alive")
        await expect(row).to_contain_text("ready")
        await row.get_by_role("button", name="Try").click()
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_role("dialog")).to_contain_text("completed")
        await expect(page.get_by_role("region", name="result")).to_have_text("ok")
        await page.get_by_role("button", name="Close").click()
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        await row.get_by_role("button", name="Remove").click()
        await expect(row).to_have_count(0)


async def test_an_operator_adds_a_server_signs_in_and_removes_it(console: Stage, tmp_path: Path) -> None:
    async with (
        SignInServer(tmp_path).running() as place,
        open_page(at(console, "operations", "tools"), keys=_OPERATOR, also=(place.origin,)) as page,
    ):
        await page.get_by_role("button", name="Add a server").click()
        await page.get_by_label("As JSON").fill(json.dumps({"mcpServers": {"friends": {"url": place.url}}}))
        await page.get_by_role("button", name="Add", exact=True).click()
        server = page.get_by_role("group", name="friends")
        await expect(server).to_contain_text("signed out")
        await server.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Call").click()
        asked = page.get_by_role("group", name="Decision about friends__sign_in")
        href = await asked.get_by_role("link").get_attribute("href")
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            assert "It goes on by itself" in (await browser.get(f"{href}&user=alice")).text
        await expect(page.get_by_role("region", name="result")).to_contain_text("friends__add")
        await page.get_by_role("button", name="Close").click()
        await expect(server).to_contain_text("ready")
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        await server.get_by_role("button", name="Remove").click()
        await expect(server).to_have_count(0)


async def test_nodes_named_as_methods_of_objects_are_drawn_as_others_are(console: Stage) -> None:
    names = ("constructor", "toString", "start")
    graph = {
        "name": "odd_names",
        "nodes": [{"key": name, "kind": "llm", "system_prompt": "Write."} for name in names],
        "edges": [{"from": names[0], "to": names[1]}, {"from": names[1], "to": names[2]}],
        "entry": names[0],
        "ends": [names[2]],
    }
    async with open_page(at(console, "registries", "graphs"), keys=_OPERATOR) as page:
        await page.get_by_role("button", name="Add").click()
        await page.get_by_label("Entry").fill(json.dumps(graph))
        await page.get_by_role("button", name="Register").click()
        await page.get_by_role("link", name="odd_names").click()
        shown = page.get_by_role("region", name="Graph odd_names")
        await expect(shown.locator(".node")).to_have_count(5)
        await expect(shown.locator(".edge")).to_have_count(4)


async def test_a_dialog_stays_as_it_is_while_its_task_goes_on(console: Stage) -> None:
    held = asyncio.Event()

    def script(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return say("the end", wait=held)
        return call(("calculator", {"expression": "6*7"}))

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, "go on")
        await page.get_by_role("article", name="Step 1").get_by_role("link").first.click()
        await page.get_by_role("button", name="Fork from here").click()
        await page.get_by_label("New message").fill("half a sent")
        held.set()
        await expect(page.get_by_text("2. scripted")).to_have_count(1)
        await expect(page.get_by_label("New message")).to_have_value("half a sent")


async def test_an_image_that_a_tool_makes_is_shown_and_every_file_can_be_saved(console: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        return say("there it is") if request["messages"][-1]["role"] == "tool" else call(("picture", {}))

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, "draw a point")
        shown = page.get_by_role("log").get_by_role("img", name="result.png")
        await expect(shown).to_be_visible()
        assert await shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
        files = page.get_by_label("Tasks and files")
        async with page.expect_download() as download:
            await files.get_by_role("button", name="result.png").click()
        assert (await (await download.value).path()).read_bytes().startswith(b"\x89PNG")


async def test_a_message_that_is_too_long_stays_in_its_field(console: Stage) -> None:
    async with open_page(at(console, "chat", new_session())) as page:
        await send(page, "x" * 65_537)
        await expect(page.get_by_role("alert")).to_contain_text("65")
        assert len(await page.get_by_role("textbox", name="Message").input_value()) == 65_537


async def test_a_gateway_that_cannot_work_is_told_of_and_asked_again(console: Stage) -> None:
    async with open_page(console.url, go=False, allowed=("Failed to load resource",)) as page:
        problem = json.dumps({"title": "Busy", "status": 500, "detail": f"{_HOSTILE}{'long ' * 10_000}"})
        await page.route(
            "**/v1/sessions?**",
            lambda route: route.fulfill(status=500, content_type="application/problem+json", body=problem),
        )
        await page.goto(at(console, "tasks"))
        told = page.get_by_role("alert")
        await expect(told).to_contain_text("onerror")
        assert len(await told.inner_text()) < 2_000
        await page.unroute("**/v1/sessions?**")
        await page.get_by_role("button", name="Try again").click()
        await expect(told).to_have_count(0)
        assert await page.evaluate("window.hurt") is None


async def _task_of(api: Api, session: str) -> str | None:
    """The first task of a session, once it is there."""
    found = (await api.get(f"/v1/tasks?session_id={session}"))["items"]
    return found[-1]["task_id"] if found else None


async def test_hostile_text_and_names_run_no_script_and_ask_no_other_host(console: Stage) -> None:
    """No text of a model, a tool or a person becomes a script, an element that loads, or a request."""

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(_HOSTILE, thinking=_HOSTILE)
        return call(("remark", {"text": _HOSTILE}), (f"tool{_HOSTILE}", {"a": _HOSTILE}))

    async with console.model(script), open_page(at(console, "chat", new_session())) as page:
        await send(page, _HOSTILE)
        await expect(page.get_by_label("Tasks and files")).to_contain_text("completed")
        for place in (page.get_by_role("log"), page.get_by_label("Tasks and files")):
            await expect(place).to_contain_text("onerror")
        await page.get_by_role("article", name="Step 2").get_by_role("link").first.click()
        await expect(page.get_by_role("region", name="Step 2")).to_be_visible()
        await page.get_by_role("link", name="Exact prompt").click()
        await expect(page.locator(".said.user")).to_contain_text("onerror")
        assert await page.evaluate("window.hurt") is None
        for hostile in ("%3Cimg%20src=x%20onerror=hurt=1%3E", "..%2F..%2Fmetrics", "..", "%09", "%E2%80%AE"):
            await page.goto(at(console, "tasks", hostile))
            await expect(page.get_by_text("This address names no place of the console.")).to_be_visible()
        for unknown in ("toString", "operations/constructor", "registries/valueOf"):
            await page.goto(at(console, unknown))
            await expect(page.get_by_role("main")).not_to_contain_text("Loading")
        await page.goto(at(console, "chat", '"><svg\u2028onload=hurt=1>'))
        assert await page.evaluate("window.hurt") is None


@pytest.mark.parametrize("place", ["chat", "tasks", "memory", "operations", "registries/graphs/plan_solve"])
async def test_no_view_has_a_serious_fault_of_accessibility(console: Stage, place: str) -> None:
    folder = installed("axe-core@4.11.0")
    if folder is None:
        pytest.skip("axe cannot be installed here: it needs node, npm and its registry")
    axe = (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
    async with open_page(at(console, place), keys=_OPERATOR) as page:
        await expect(page.get_by_role("main")).not_to_contain_text("Loading")
        await page.evaluate(axe)
        for theme in ("light", "dark"):
            await page.get_by_role("combobox", name="Theme").select_option(theme)
            found = await page.evaluate("axe.run()")
            serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
            assert [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in serious] == []


async def test_on_a_phone_nothing_lies_beside_the_screen(console: Stage) -> None:
    async with open_page(at(console, "chat"), keys=_OPERATOR, phone=True) as page:
        for place in ("chat", "tasks", "memory", "operations", "registries"):
            await page.goto(at(console, place))
            await expect(page.get_by_role("main")).not_to_contain_text("Loading")
            assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), place


async def test_the_first_view_is_light(console: Stage) -> None:
    """All that the first view loads is below 150 kB, compressed as it is sent."""
    sizes: list[int] = []
    async with open_page(console.url, go=False) as page:
        page.on("requestfinished", lambda request: asyncio.ensure_future(_weigh(request, sizes)))
        await page.goto(at(console, "chat"))
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    print(f"first view: {len(sizes)} answers, {sum(sizes):,} bytes")
    assert 30_000 < sum(sizes) < 150_000


async def _weigh(request: Any, sizes: list[int]) -> None:
    sizes.append((await request.sizes())["responseBodySize"])


async def test_a_stream_goes_on_after_its_gateway_was_killed(cluster: Cluster) -> None:
    """Law: who comes back with a cursor misses nothing and sees nothing twice; the console does it by itself."""
    gateway, go = cluster.system.named("gateway")[0], asyncio.Event()
    words = " ".join(f"word{n}" for n in range(60))
    lost = ("WebSocket", "Failed to load resource")
    async with (
        cluster.model(lambda _: say(words, chunks=60, wait=go, wait_after=20)),
        open_page(f"{gateway.url}/console#/chat/{new_session()}", allowed=lost) as page,
    ):
        await send(page, "talk")
        await expect(page.get_by_role("log")).to_contain_text("word10")
        await asyncio.to_thread(cluster.system.restart, gateway)
        go.set()
        await expect(page.get_by_role("article", name="Step 1").locator(".markdown")).to_have_text(
            words, timeout=PATIENCE_S * 1000
        )
        await expect(page.get_by_label("Tasks and files")).to_contain_text("completed")


async def test_fifty_updates_a_second_and_more_nodes_than_a_request_has_are_all_drawn(console: Stage) -> None:
    words = " ".join(f"w{n}" for n in range(100))
    async with (
        console.model(lambda _: say(words, chunks=100, delay=0.02)),
        console.api() as api,
        open_page(at(console, "chat", new_session())) as page,
    ):
        await send(page, "talk")
        centre = await _node(api, "the centre of all things")
        for n in range(8):
            hub = await _node(api, f"thing number {n} around it", centre)
            for leaf in range(28):
                await _node(api, f"part {leaf} of thing {n}", hub)
        await expect(page.get_by_role("article", name="Step 1").locator(".markdown")).to_have_text(words)
        await page.goto(at(console, "memory", "nodes", centre))
        await page.get_by_label("Nodes", exact=True).fill("500")
        await page.keyboard.press("Enter")
        await expect(page.locator(".graph")).to_have_attribute("data-nodes", "233", timeout=PATIENCE_S * 1000)


async def test_a_graph_of_five_thousand_nodes_moves_and_is_pressed(console: Stage) -> None:
    """Frames do not wait for a large graph, also where the processor draws: 58 a second on a machine of two cores."""
    async with open_page(at(console, "memory"), keys=_OPERATOR) as page:
        await page.route("**/v1/memory/nodes/**", _told_of_a_large_graph)
        await page.goto(at(console, "memory", "nodes", "n0"))
        await page.get_by_label("Nodes", exact=True).fill("5000")
        await page.keyboard.press("Enter")
        graph = page.locator(".graph")
        await expect(graph).to_have_attribute("data-nodes", "5000", timeout=PATIENCE_S * 1000)
        canvas = graph.get_by_role("img", name=re.compile("5,000 nodes, 9,"))
        await canvas.scroll_into_view_if_needed()
        box = await canvas.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await page.evaluate(_COUNT_FRAMES)
        await page.mouse.move(x, y)
        await page.mouse.down()
        before = await page.evaluate("[frames, performance.now()]")
        for n in range(120):
            await page.mouse.move(x + n % 20, y + n % 15)
        after = await page.evaluate("[frames, performance.now()]")
        await page.mouse.up()
        rate = 1000 * (after[0] - before[0]) / (after[1] - before[1])
        print(f"a dragged graph of 5,000 nodes: {rate:.0f} frames/s")
        assert rate > 15
        await page.mouse.move(x, y)
        for _ in range(30):  # nearer to the middle, until a node is there
            await page.mouse.click(x, y)
            if "nodes/n0" not in page.url:
                break
            await page.mouse.wheel(0, 60)
        await expect(page).to_have_url(re.compile("nodes/n[1-9]"))


_COUNT_FRAMES = """() => {
  window.frames = 0
  const next = () => { window.frames++; requestAnimationFrame(next) }
  next()
}"""


async def _told_of_a_large_graph(route: Route) -> None:
    """The gateway's answers about 5,000 nodes, each of which hangs together with two that came before."""
    asked = urlsplit(route.request.url)
    begin = int(parse_qs(asked.query).get("cursor", ["0"])[0])
    nodes = [_told_node(n) for n in range(begin, begin + 200)]
    edges = [
        {"id": f"{n} {m}", "source": f"n{m}", "target": f"n{n}", "type": "part_of", "weight": 0.5}
        for n in range(max(begin, 1), begin + 200)
        for m in {n // 3, max(n * 7 % n, n - 2)} - {n}
    ]
    more = str(begin + 200) if begin < 4_800 else None
    walked = {"nodes": nodes, "edges": edges, "next": more}
    await route.fulfill(json=walked if asked.path.endswith("/neighbours") else _told_node(0))


def _told_node(number: int) -> dict[str, Any]:
    told = {"id": f"n{number}", "kind": ("fact", "entity")[number % 2], "text": f"node {number}", "importance": 0.5}
    return told | {"depth": 1, "cost": 0.5, "came_from": None, "supports": [], "supported_by": 0, "metadata": {}}


async def _node(api: Api, text: str, part_of: str | None = None) -> str:
    """A node that a person adds, and the one that it belongs to."""
    node = str((await api.post("/v1/memory/nodes", {"kind": "fact", "text": text}, status=201))["id"])
    if part_of is not None:
        await api.post("/v1/memory/edges", {"source": part_of, "target": node, "type": "part_of"}, status=201)
    return node


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, {"PENTAD_API_KEYS": "ours-key:ours,theirs-key:theirs"}) as system:
        yield system


async def test_who_has_no_key_sees_a_form_and_another_tenants_key_opens_nothing_of_ours(locked: Stage) -> None:
    refused = ("Failed to load resource",)
    async with locked.model(lambda _: say("hello Ada")):
        async with open_page(at(locked, "chat", "s1"), allowed=refused) as page:
            await page.get_by_label("API key").fill("guessed")
            await page.get_by_role("button", name="Sign in").click()
            await expect(page.get_by_role("alert")).to_contain_text("API key")
            await page.get_by_label("API key").fill("ours-key")
            await page.get_by_role("button", name="Sign in").click()
            await send(page, "hello")
            await expect(page.get_by_role("log")).to_contain_text("hello Ada")
            task = await page.get_by_role("article", name="Step 1").get_by_role("link").get_attribute("href")
            kept = await page.evaluate("JSON.stringify([localStorage, document.cookie, location.href])")
            assert "ours-key" not in kept
            await page.get_by_role("button", name="Keys").click()
            await page.get_by_role("button", name="Sign out").click()
            await expect(page.get_by_label("API key")).to_be_visible()
        async with open_page(f"{locked.url}/console{task}", allowed=refused, keys={"pentad.key": "theirs-key"}) as page:
            await expect(page.get_by_role("alert")).to_contain_text("no such task")
            await page.goto(at(locked, "chat", "s1"))
            await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
            assert "Ada" not in await page.content()


async def test_an_instruction_is_registered_changed_compared_and_tried_out(console: Stage) -> None:
    entry = {"name": "console_poet", "description": "Writes poems.", "system_prompt": "Write short poems."}
    async with (
        console.model(lambda r: say(f"as told: {r['messages'][0]['content']}")),
        open_page(at(console, "registries", "instructions"), keys=_OPERATOR) as page,
    ):
        for prompt in ("Write short poems.", "Write long poems."):
            await page.get_by_role("button", name="Add").click()
            await page.get_by_label("Entry").fill(json.dumps(entry | {"system_prompt": prompt}))
            await page.get_by_role("button", name="Register").click()
            await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_role("link", name="console_poet").click()
        shown = page.get_by_role("region", name="console_poet", exact=True).first
        before = shown.get_by_role("combobox", name="Compare with")
        await expect(before.locator("option").nth(1)).to_contain_text("1 before")
        await before.select_option(index=1)
        await expect(shown.locator(".gone")).to_contain_text("Write short poems.")
        await expect(shown.locator(".added")).to_contain_text("Write long poems.")
        await before.select_option(index=0)
        await shown.get_by_label("Try it with this input").fill("go")
        # Services know a change within two seconds.
        await wait_until("the new version to answer", lambda: _tried(shown, "as told: Write long poems."))


async def _tried(shown: Locator, wanted: str) -> bool:
    await shown.get_by_role("button", name="Run").click()
    return wanted in await shown.get_by_role("region", name="result").inner_text()


async def test_the_pictures_of_the_readme_are_what_the_console_shows(console: Stage, tmp_path: Path) -> None:
    """``make screenshots`` keeps them in docs/images."""
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say("Together they need **42 seats**:\n\n| table | seats |\n|---|---|\n| six round ones | 7 each |")
        if "seats" in str(last["content"]):
            return call(("calculator", {"expression": "6*7"}), text="Six tables of seven.")
        if "invite" in str(last["content"]):
            return call(("echo", {"text": "Dear guests, please come on Friday at eight."}))
        return say("Here is a **menu**:\n\n1. Soup of green peas\n2. Baked fish with lemon\n3. Cake of figs")

    async with console.model(script), open_page(at(console, "chat", f"dinner-{new_session()}")) as page:
        for text in ("how many seats have six tables of seven?", "suggest a menu of three courses", "invite them all"):
            await send(page, text, "new")
            await expect(page.get_by_label("Tasks and files").locator("li.task").filter(has_text=text)).to_contain_text(
                "waiting" if "invite" in text else "completed"
            )
        await page.get_by_role("link", name="Side by side").click()
        await page.screenshot(path=folder / "console-chat.png")
        await (
            page.get_by_label("Tasks and files").locator("li.task").filter(has_text="seats").get_by_role("link").click()
        )
        await page.get_by_role("button", name="2. scripted").click()
        await expect(page.get_by_role("region", name="Step 2")).to_be_visible()
        await page.screenshot(path=folder / "console-trace.png")
    assert all((folder / name).stat().st_size > 10_000 for name in ("console-chat.png", "console-trace.png"))


async def test_an_operator_sees_the_live_system_and_its_schedules(console: Stage) -> None:
    held = asyncio.Event()
    async with (
        console.model(lambda _: say("a story", chunks=4, wait=held, wait_after=3)),
        open_page(at(console, "chat", new_session()), keys=_OPERATOR) as page,
    ):
        await send(page, "a task that an operator sees")
        await page.get_by_role("link", name="Operations").click()
        live = page.get_by_role("region", name="Tasks that go on")
        await expect(live).to_contain_text("a task that an operator sees")
        await expect(page.get_by_role("region", name="Streams")).to_contain_text("pentad:inbound")
        await expect(page.get_by_role("region", name="Services")).to_contain_text("alive")
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        row = live.get_by_role("row").filter(has_text="a task that an operator sees")
        await row.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("main")).not_to_contain_text("a task that an operator sees")
        held.set()
        async with console.api() as api:
            other = {"schedule_id": "beside", "every": 3600, "content": "Tidy up."}
            await api.post("/v1/schedules", other, status=201)
        await page.get_by_role("link", name="Schedules").click()
        await page.get_by_role("button", name="Add a schedule").click()
        entry = {
            "schedule_id": "morning",
            "cron": "0 9 * * 1-5",
            "time_zone": "Europe/Berlin",
            "content": "What is new?",
        }
        await page.get_by_label("As JSON").fill(json.dumps(entry))
        await page.get_by_role("button", name="Add", exact=True).click()
        morning = page.get_by_role("region", name="morning")
        row = page.get_by_role("region", name="Schedules of all tenants").get_by_role("row").filter(has_text="beside")
        await expect(row.get_by_role("cell", name="default")).to_have_count(1)
        await expect(row).to_contain_text("every 3600 s UTC")
        await expect(row).to_contain_text("active")
        await page.get_by_role("textbox", name="Tenant").fill("nobody")
        await page.keyboard.press("Enter")
        await expect(row).to_have_count(0)
        async with console.api() as api:
            await api.post("/v1/schedules/beside/pause", {}, status=200)
        await page.get_by_role("textbox", name="Tenant").fill("default")
        await page.keyboard.press("Enter")
        await expect(row).to_contain_text("paused")
        await morning.get_by_role("button", name="Pause").click()
        await expect(morning).to_contain_text("paused")
        await morning.get_by_role("button", name="Resume").click()
        await expect(morning).to_contain_text("active")
        await morning.get_by_role("button", name="History").click()
        await expect(morning).to_contain_text("It was not due yet.")
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        await morning.get_by_role("button", name="Remove").click()
        await expect(morning).to_have_count(0)
        await page.get_by_role("link", name="Webhooks").click()
        await page.get_by_role("button", name="Add a webhook").click()
        await page.get_by_role("button", name="Add", exact=True).click()
        hook = page.get_by_role("region", name="https://example.com/hook")
        await expect(hook).to_contain_text("task_end")
        page.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        await hook.get_by_role("button", name="Remove").click()
        await expect(hook).to_have_count(0)


async def test_an_idle_conversation_asks_for_nothing(console: Stage) -> None:
    """Thousands of open pages cost the gateway their connections alone."""
    asked: list[str] = []
    async with console.model(lambda _: say("hello")), open_page(console.url, go=False) as page:
        await page.clock.install()
        await page.goto(at(console, "chat", new_session()))
        await send(page, "hi")
        await expect(page.get_by_label("Tasks and files")).to_contain_text("completed")
        await page.wait_for_load_state("networkidle")
        page.on("request", lambda request: asked.append(request.url))
        await page.clock.run_for(14_000)  # less than the time after which the connection is tried
        assert asked == []
