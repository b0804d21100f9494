"""The JavaScript client: nothing is lost or doubled while gateways are killed, and people decide through it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.browser.chromium import open_page
from tests.support.javascript.driven import DrivenSession
from tests.support.javascript.node_tests import NO_NODE, NODE
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.cluster import Cluster
from tests.support.processes.stage import Stage, echo_asks, new_session, stage
from tests.support.redis.raw_redis import events_of, publish
from tests.support.slow import rarely
from tests.support.waiting import wait_until
from tests.support.web.page_server import page_server

pytestmark = [pytest.mark.acceptance, pytest.mark.skipif(NODE is None, reason=NO_NODE)]
TRANSPORTS = ("websocket", "sse")
EPHEMERAL = ("content", "thinking", "tool_progress")
KILLS = 4


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Stage, int]]:
    """Such a system with an API key, which lets in pages of this port."""
    port = free_port()
    keys = {"PENTAD_API_KEYS": "ka:default", "PENTAD_CORS_ORIGINS": f"http://127.0.0.1:{port}"}
    with stage(tmp_path / "up", echo_asks(tmp_path) | keys) as system:
        yield system, port


def texts_of(state: dict[str, Any], task: str) -> list[str]:
    """What a state says that a task has said."""
    return [step["text"] for step in state["tasks"][task]["steps"] if step["text"]]


@pytest.mark.parametrize("transport", rarely(TRANSPORTS, "sse"))
async def test_three_tasks_are_followed_while_their_gateway_is_killed_again_and_again(
    cluster: Cluster, transport: str
) -> None:
    session, gateway, go = new_session(), cluster.system.named("gateway")[0], asyncio.Event()
    names = ("red \U0001f600", "green", "blue")

    def script(request: dict[str, Any]) -> Reply:
        asked = str(request["messages"][-1]["content"])
        if "round" in asked:
            return say(f"answer to {asked}", chunks=6, delay=0.05)
        name = next(name for name in names if name in asked)
        return say(f"all about {name}, in many small pieces", chunks=20, delay=0.03, wait=go, wait_after=12)

    async with cluster.model(script), DrivenSession(gateway.url, session, transport=transport) as client:
        sending = [client.ask("send", text=f"tell me about {name}", taskId="new", messageId=name[0]) for name in names]
        await wait_until(
            "three tasks", lambda: len({e["task_id"] for e in client.events if e["type"] == "content"}) == 3
        )
        for kill in range(KILLS):
            await asyncio.to_thread(cluster.system.restart, gateway)
            # What is said while nobody is there waits for its turn.
            sending += [client.ask("send", text=f"round {kill}", messageId=f"round-{kill}", taskId="new")]
            await client.until("message", turn=f"round-{kill}")
        go.set()
        for sent in sending:
            assert "error" not in await sent
        await wait_until("all turns", lambda: len(client.turns) == len(sending))
        await cluster.all_ready()
        state = await client.do("state")
    on_stream = await events_of(cluster.redis_url, session)
    durable = [e for e in on_stream if e["type"] not in EPHEMERAL]
    assert [e for e in client.events if e["type"] not in EPHEMERAL] == durable
    assert len({e["id"] for e in client.events}) == len(client.events)
    routed = [e["message_id"] for e in on_stream if e["type"] == "message_routed"]
    assert routed == ["r", "g", "b", *(f"round-{n}" for n in range(KILLS))], (
        "each once, in the order in which it was said"
    )
    for event in on_stream:
        if event["type"] == "message":
            assert texts_of(state, event["task_id"]) == [event["content"]]
    assert {task["status"] for task in state["tasks"].values()} == {"completed"}
    assert {turn["outcome"] for turn in client.turns} == {"completed"}
    assert {turn["answer"] for turn in client.turns} >= {f"all about {name}, in many small pieces" for name in names}
    reconnected = client.statuses.count("connected") - 1
    print(f"{transport}: {len(client.events)} events, {reconnected} reconnects, {KILLS} kills")
    assert reconnected >= KILLS


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_person_edits_allows_refuses_answers_moves_and_cancels(asking: Stage, transport: str) -> None:
    def script(request: dict[str, Any]) -> Reply:
        users = [str(m["content"]) for m in request["messages"] if m["role"] == "user"]
        last = request["messages"][-1]
        if "say" in users[-1]:
            return say(f"it said {last['content']}") if last["role"] == "tool" else call(("echo", {"text": "secret"}))
        if users[-1] == "book":
            return call(("ask_user", {"question": "For when?"}))
        if "long" in users[-1]:
            return say("a long story " * 20, chunks=50, delay=0.2)
        return say(f"ok {users[-1]}")

    async with asking.model(script), DrivenSession(asking.url, new_session(), transport=transport) as client:
        await client.do("send", text="say it", messageId="m1", taskId="new")
        await client.until("approval_request")
        assert [each["tool"] for each in await client.do("approvals")] == ["echo"]
        decided = await client.do("approve", args={"text": "public"}, reason="safer")
        assert (decided["approved"], decided["args"]) == (True, {"text": "public"})
        said = await client.until("message", lambda e: e["correlation_id"] == "m1" and e["content"] != "")
        assert said["content"].endswith("public")

        await client.do("send", text="say it again", messageId="m2", taskId="new")
        asked = await client.until("approval_request", turn="m2")
        other = {"task_id": asked["task_id"], "tool_call_id": asked["tool_call_id"], "args_digest": "0" * 64}
        path = f"/v1/tasks/{other['task_id']}/approvals/{other['tool_call_id']}"
        stale = {"approved": True, "args_digest": other["args_digest"]}
        assert await client.refused("request", method="POST", path=path, body=stale) == "Conflict"
        await client.do("refuse", reason="not now")
        await client.until("task_end", turn="m2")

        await client.do("send", text="book", messageId="m3", taskId="new")
        await client.until("task_status", lambda e: e["reason"] == "question")
        await client.do("answer", text="Monday")
        await client.until("message", lambda e: e["content"] == "ok Monday")

        await client.do("send", text="one", messageId="m4", taskId="new")
        before = await client.until("task_end", turn="m4")
        await client.do("move", message="m4", to="new")
        moved = await client.until("message_moved")
        await client.until("task_end", lambda e: e["task_id"] == moved["to_task_id"])

        await client.do("send", text="long", messageId="m5", taskId="new")
        content = await client.until("content", turn="m5")
        await client.do("pause", task=content["task_id"])
        await client.until("task_status", lambda e: e["reason"] == "paused")
        paused = await client.do("state")
        await client.do("resume", task=content["task_id"])
        await client.until("content", lambda e: e["correlation_id"] == "m5" and e["attempt"] > content["attempt"])
        await client.do("cancel", task=content["task_id"])
        await client.until("task_end", turn="m5")
        state = await client.do("state")
    calls = {call["step"]: call for call in state["tasks"][said["task_id"]]["calls"].values()}
    assert (calls[1]["status"], calls[1]["result"], calls[1]["approval"]["status"]) == ("done", "public", "approved")
    [refused] = state["tasks"][asked["task_id"]]["calls"].values()
    assert (refused["approval"]["status"], refused["approval"]["decision_reason"]) == ("refused", "not now")
    assert [m["from_task_id"] for m in state["messages"]["m4"]["moves"]] == [before["task_id"]]
    assert state["messages"]["m4"]["task_id"] == moved["to_task_id"]
    assert texts_of(paused, content["task_id"]) == [], "a pause makes void what was being said"
    assert state["tasks"][content["task_id"]]["status"] == "cancelled"
    outcomes = {turn["message_id"]: turn["outcome"] for turn in client.turns}
    assert outcomes["m1"] == "waiting"
    assert outcomes["m5"] in ("waiting", "cancelled")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_whose_cursor_is_gone_goes_on_from_a_snapshot(strict: Stage, transport: str) -> None:
    session = new_session()
    async with strict.model(lambda r: say(f"answer to {r['messages'][-1]['content']}")):
        async with DrivenSession(strict.url, session, transport=transport) as early:
            await early.do("send", text="the beginning", messageId="first")
            cursor = (await early.until("task_end"))["id"]
        more = ({"content": f"more {n}", "session_id": session, "task_id": "new"} for n in range(40))
        await publish(strict.redis_url, *more)
        async with DrivenSession(strict.url, session, transport=transport, after="now") as watching:
            await watching.do("send", text="the last", messageId="last", taskId="new")
            await watching.until("task_end", turn="last")
            fresh = await watching.do("state")
        async with DrivenSession(strict.url, session, transport=transport, after=cursor) as late:
            await late.until("snapshot")
            restored = await late.do("state")
            await late.do("send", text="and now?", messageId="now", taskId="new")
            await late.until("task_end", turn="now")
            state = await late.do("state")
    assert [e["type"] for e in late.events[:2]] == ["error", "snapshot"]
    assert watching.events[0]["type"] == "snapshot", "from now on begins with a snapshot, without the word of a gap"
    shown = [restored["messages"][e["message_id"]]["text"] for e in restored["order"] if e["kind"] == "message"]
    assert (shown[0], shown[-1]) == ("the beginning", "the last")
    assert fresh["messages"]["last"]["text"] == "the last"
    assert texts_of(state, state["messages"]["now"]["task_id"]) == ["answer to and now?"]
    assert [turn["outcome"] for turn in late.turns] == ["completed"]


PLACE = {"name": "get_place", "description": "Where the user is", "parameters": {"type": "object", "properties": {}}}


def asks_for_place(request: dict[str, Any]) -> Reply:
    """A model that calls ``get_place`` when it is asked where, and says what it was told."""
    last = request["messages"][-1]
    return call(("get_place", {"exact": True})) if "where" in str(last["content"]) else say(f"so: {last['content']}")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_page_that_asked_runs_its_tool_once_though_its_gateway_is_killed_meanwhile(
    cluster: Cluster, transport: str
) -> None:
    session, gateway = new_session(), cluster.system.named("gateway")[0]
    async with (
        cluster.model(asks_for_place),
        DrivenSession(gateway.url, session, transport=transport) as page,
        DrivenSession(gateway.url, session, transport=transport) as other,
    ):
        tools = [PLACE | {"gives": {"city": "Berlin"}, "waits": True}]
        await page.do("send", text="where am I?", messageId="m1", tools=tools)
        await other.until("task_status", lambda e: e["reason"] == "client_tools")
        await wait_until("its tool", lambda: page.told)
        await asyncio.to_thread(cluster.system.kill, gateway)
        await page.do("release")
        await asyncio.to_thread(cluster.system.start, gateway)
        await wait_until("the turn", lambda: page.turns)
        await other.until("task_end")
        seen = await other.do("state")
        await cluster.all_ready()
    (turn,) = page.turns
    assert (turn["outcome"], turn["answer"]) == ("completed", 'so: {"city":"Berlin"}')
    (ran,) = page.told
    assert ran["ran"]["args"] == {"exact": True}
    assert other.told == [], "of two pages, the one that asked runs the tool"
    [made] = seen["tasks"][turn["task_id"]]["calls"].values()
    assert (made["client"], made["status"], made["result"]) == (True, "done", '{"city":"Berlin"}')
    results = [e for e in await events_of(cluster.redis_url, session) if e["type"] == "tool_result"]
    assert len(results) == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_without_a_function_is_answered_by_hand_fails_or_is_given_up(
    strict: Stage, transport: str
) -> None:
    async with (
        strict.model(asks_for_place),
        DrivenSession(strict.url, new_session(), transport=transport) as page,
    ):
        await page.do("send", text="where am I?", messageId="m1", tools=[PLACE], taskId="new")
        await wait_until("the wait", lambda: page.turns)
        assert (page.turns[0]["outcome"], page.turns[0]["reason"]) == ("waiting", "client_tools")
        assert [each["tool"] for each in await page.do("client_calls")] == ["get_place"]
        await page.do("result", value="in Berlin")
        await page.until("message", lambda e: e["content"] == "so: in Berlin")
        await page.until("task_end")

        await page.do("send", text="where?", messageId="m2", taskId="new", tools=[PLACE | {"throws": "I do not say"}])
        await page.until("message", lambda e: e["content"] == "so: error: I do not say")
        await wait_until("the turn", lambda: len(page.turns) == 2)

        long = "x" * 20_000
        tools = [PLACE | {"gives": long}]
        await page.do("send", text="where now?", messageId="m3", taskId="new", tools=tools)
        await wait_until("the turn", lambda: len(page.turns) == 3)
        assert page.turns[2]["answer"] == f"so: {long}"

        await page.do(
            "send", text="where next?", messageId="m4", taskId="new", tools=[PLACE | {"gives": 1, "waits": True}]
        )
        waiting = await page.until("task_status", lambda e: e["correlation_id"] == "m4")
        await page.do("send", text="never mind", messageId="m5", taskId=waiting["task_id"])
        await page.until("message", lambda e: e["content"] == "so: never mind")
        await wait_until("its signal", lambda: any("gave_up" in each for each in page.told))
        assert await page.do("client_calls") == []


async def test_files_memory_and_whatever_else_there_is_are_reached(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda _: say("yes")), DrivenSession(pentad_up.url, new_session()) as client:
        await client.do("put", path="notes/\u00e9 1.txt", text="hello there")
        assert await client.do("list") == ["notes/\u00e9 1.txt"]
        assert await client.do("get", path="notes/\u00e9 1.txt") == "hello there"
        assert await client.do("get", path="notes/\u00e9 1.txt", start=6, end=9) == "the"
        await client.do("remove", path="notes/\u00e9 1.txt")
        assert await client.refused("get", path="notes/\u00e9 1.txt") == "NotFound"
        assert "hits" in await client.do("search", question="hello", limit=3)
        assert await client.refused("expand", anchor="nothing") in ("NotFound", "Refused")
        tools = await client.do("request", method="GET", path="/v1/tools")
        assert "calculator" in {tool["name"] for tool in tools["items"]}
        assert await client.refused("request", method="GET", path="/v1/tasks/task-0-none") == "NotFound"
        await client.do("close")
        await client.ended()


async def test_a_person_allows_refuses_and_stops_in_a_browser(guarded: tuple[Stage, int], tmp_path: Path) -> None:
    (system, port), site = guarded, f"http://127.0.0.1:{guarded[1]}"

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it said {last['content']}")
        if "long" in str(last["content"]):
            return say("a long story " * 20, chunks=50, delay=0.2)
        return call(("echo", {"text": str(last["content"])}), text="let me see")

    async with (
        system.model(script),
        page_server(system.url, port, tmp_path),
        open_page(site, also=[system.url]) as page,
    ):
        shown, field = page.locator("body"), page.locator("form input")
        await expect(shown).to_contain_text("connected")
        await field.fill("the word")
        await field.press("Enter")
        await expect(shown).to_contain_text("let me see")
        await page.get_by_role("button", name="Allow").click()
        await expect(shown).to_contain_text("it said the word")
        await field.fill("another word")
        await field.press("Enter")
        await page.get_by_role("button", name="Refuse").last.click()
        await expect(shown).to_contain_text("refused")
        await field.fill("long")
        await field.press("Enter")
        await expect(shown).to_contain_text("a long story")
        # By the keyboard: while text streams in, the button moves under a mouse.
        await page.get_by_role("button", name="Stop").press("Enter")
        await expect(shown).to_contain_text("cancelled")
