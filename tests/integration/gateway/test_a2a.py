"""A2A's routes keep tenants apart, refuse what they cannot read or is too large, and say it in A2A's form."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.protocols.a2a import a2a_routes, dispatch, turn_updates
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, running
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.support.waiting import PATIENCE_S, in_time, wait_until

KEYS = "ka:acme,kb:bolt"
VERSION = {"A2A-Version": "1.0"}
SAID: dict[str, Any] = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
NOT_FOUND, UNSUPPORTED, INVALID, INTERNAL = -32001, -32004, -32602, -32603


def rest(service: GatewayService, key: str | None) -> httpx2.AsyncClient:
    held = VERSION if key is None else VERSION | {"Authorization": f"Bearer {key}"}
    return httpx2.AsyncClient(
        base_url=service.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S, headers=held
    )


def asking(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def code_of(http: httpx2.AsyncClient, method: str, **params: Any) -> int:
    """The code of the error with which a request in JSON-RPC is answered; 0 for none."""
    answered = await http.post("/a2a", json=asking(method, **params), headers=VERSION)
    return int(answered.json().get("error", {}).get("code", 0))


async def begun(store: Store, session: str = "s1", tenant: str = "acme", task: str = TASK) -> Speaker:
    """A task that waits for the answer to a question, with its transcript."""
    speaker = Speaker(store, session, tenant=tenant)
    await speaker.session({"role": "user", "content": "q", "message_id": "m0"})
    keys = await speaker.task(task, status="waiting", reason="question")
    asked = {"id": "c", "type": "function", "function": {"name": "ask_user", "arguments": '{"question": "When?"}'}}
    for meta, said in (
        ({"message_id": "m0"}, {"role": "user", "content": "q"}),
        ({"step": 1}, {"role": "assistant", "content": "Well.", "tool_calls": [asked]}),
    ):
        await store.call("RPUSH", keys.log, f"{json.dumps({'at': AT} | meta)}\n{json.dumps(said)}")
    return speaker


async def test_the_card_is_for_everybody_and_all_else_needs_a_key(redis_url: str, store: Store) -> None:
    await begun(store)
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service, None) as nobody:
        card = (await nobody.get("/.well-known/agent-card.json")).json()
        assert [each["url"] for each in card["supportedInterfaces"]][:2] == [
            f"{service.address}/a2a",
            f"{service.address}/a2a/rest",
        ]
        assert (card["capabilities"]["streaming"], card["capabilities"]["pushNotifications"]) == (True, True)
        assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]
        assert (await nobody.get("/.well-known/agent-card.json", headers={"Host": "a b/c"})).status_code == 400
        assert (await nobody.post("/a2a", json=asking("GetTask", id=TASK))).status_code == 401
        for path in ("tasks", f"tasks/{TASK}", f"tasks/{TASK}:subscribe", "x"):
            assert (await nobody.get(f"/a2a/rest/{path}")).status_code == 401, path
    async with (
        running(redis_url, pentad_public_url="https://agents.example.com/p/") as service,
        rest(service, None) as nobody,
    ):
        card = (await nobody.get("/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == "https://agents.example.com/p/a2a"
        assert "securitySchemes" not in card


async def test_what_is_of_another_tenant_is_not_found(redis_url: str, store: Store) -> None:
    await begun(store)
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service, "kb") as bolt:
        to_task = SAID | {"taskId": TASK}
        for method, params in (
            ("GetTask", {"id": TASK}),
            ("CancelTask", {"id": TASK}),
            ("SubscribeToTask", {"id": TASK}),
            ("SendMessage", {"message": to_task}),
            ("SendStreamingMessage", {"message": to_task}),
            ("SendMessage", {"message": to_task | {"parts": [{"data": {"approved": True, "tool_call_id": "c"}}]}}),
            ("GetTask", {"id": "../x"}),
        ):
            assert await code_of(bolt, method, **params) == NOT_FOUND, method
        assert (await bolt.get(f"/a2a/rest/tasks/{TASK}")).status_code == 404
        assert (await bolt.get("/a2a/rest/tasks")).json()["tasks"] == []
        async with rest(service, "ka") as acme:
            shown = (await acme.get(f"/a2a/rest/tasks/{TASK}?historyLength=1")).json()
            assert shown["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            assert shown["status"]["message"]["parts"] == [{"text": "Well.\n\nWhen?"}]
            assert [each["parts"][0]["text"] for each in shown["history"]] == ["Well.\n\nWhen?"]
            listed = (await acme.get("/a2a/rest/tasks?status=TASK_STATE_INPUT_REQUIRED")).json()
            assert [each["id"] for each in listed["tasks"]] == [TASK]
            assert (await acme.get("/a2a/rest/tasks?status=TASK_STATE_WORKING")).json()["tasks"] == []


async def test_a_token_has_its_context_and_its_rights(redis_url: str, store: Store) -> None:
    await begun(store)
    await begun(store, "s2", task="task-0-other")
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service, "ka") as acme:

        async def token(*may: str) -> str:
            given = await acme.post("/v1/tokens", json={"session_id": "s1", "may": [*may]})
            return str(given.json()["token"])

        async with rest(service, await token("read")) as page:
            assert [task["id"] for task in (await page.get("/a2a/rest/tasks")).json()["tasks"]] == [TASK]
            assert await code_of(page, "GetTask", id="task-0-other") == NOT_FOUND
            assert (await page.get("/a2a/rest/tasks?contextId=s2")).status_code == 403
            for method, params in (("SendMessage", {"message": SAID}), ("CancelTask", {"id": TASK})):
                refused = await page.post("/a2a", json=asking(method, **params))
                assert (refused.status_code, "may not send" in refused.json()["error"]["message"]) == (403, True)
        async with rest(service, await token("read", "send")) as page:
            decision = SAID | {"taskId": TASK, "parts": [{"data": {"approved": True}}]}
            assert (await page.post("/a2a", json=asking("SendMessage", message=decision))).status_code == 403
            elsewhere = asking("SendMessage", message=SAID | {"contextId": "s2"})
            assert (await page.post("/a2a", json=elsewhere)).status_code == 403


DEEP = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + '{"a":' * 400 + "1" + "}" * 401
WIDE = json.dumps(asking("SendMessage", message=SAID | {"parts": [{"data": [0] * 3_000}]}))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 200, -32700),
        ("[1]", 200, -32700),
        ("{", 200, -32700),
        (DEEP, 200, -32700),
        (WIDE, 413, -32600),
        ("{" + " " * (1 << 20) + "}", 413, -32600),
        (json.dumps({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}), 200, -32600),
        (json.dumps(asking("Nothing")), 200, -32601),
        (json.dumps(asking("SendMessage")), 200, INVALID),
        (json.dumps(asking("SendMessage", message="x")), 200, INVALID),
        (json.dumps(asking("SendMessage", message={})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": []})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{}]})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{"text": "x"}] * 65})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{"text": "x" * 65_537}]})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{"url": "file:///etc/passwd"}]})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{"raw": "###"}]})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"messageId": "a\u0000b"})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"contextId": "a/../b c"})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"role": "ROLE_AGENT"})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"parts": [{"data": {"approved": True}}]})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"metadata": {"pentad": {"tenant_id": "b"}}})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"metadata": {"pentad": 7}})), 200, INVALID),
        (json.dumps(asking("SendMessage", message=SAID | {"taskId": "task-0-none"})), 200, NOT_FOUND),
        (json.dumps(asking("ListTasks", pageSize=101)), 200, INVALID),
        (json.dumps(asking("ListTasks", pageToken="x")), 200, INVALID),
        (json.dumps(asking("GetTask", id="task-0-none", historyLength=-1)), 200, NOT_FOUND),
        (json.dumps(asking("GetExtendedAgentCard")), 200, -32007),
        (
            json.dumps(asking("CreateTaskPushNotificationConfig", taskId=TASK, url="http://169.254.169.254/")),
            200,
            NOT_FOUND,
        ),
    ],
)
async def test_what_cannot_be_read_is_refused_and_appends_nothing(
    http: httpx2.AsyncClient, body: str, status: int, code: int
) -> None:
    refused = await http.post("/a2a", content=body, headers=VERSION | {"content-type": "application/json"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), refused.text
    assert "Traceback" not in refused.text
    assert (await http.get("/v1/sessions")).json()["items"] == []


async def test_refusals_in_rest_have_its_form(http: httpx2.AsyncClient) -> None:
    for method, path, body, status, reason in (
        ("GET", "tasks/task-0-none", None, 404, "TASK_NOT_FOUND"),
        ("GET", "nothing/here", None, 404, "METHOD_NOT_FOUND"),
        ("POST", "message:send", "{", 400, "INVALID_REQUEST"),
        ("POST", "message:send", "{}", 400, "INVALID_PARAMS"),
        ("POST", "message:stream", "{}", 400, "INVALID_PARAMS"),
        ("POST", "message:send", " " * (1 << 21), 413, "INVALID_REQUEST"),
        ("DELETE", "tasks/t/pushNotificationConfigs/p", None, 404, "TASK_NOT_FOUND"),
        ("POST", "tasks/t/pushNotificationConfigs", "{}", 400, "INVALID_PARAMS"),
    ):
        refused = await http.request(method, f"/a2a/rest/{path}", content=body, headers=VERSION)
        told = refused.json()["error"]
        assert (refused.status_code, told["details"][0]["reason"]) == (status, reason), path
    unversioned = await http.get("/a2a/rest/tasks")
    assert unversioned.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_an_answer_to_an_ended_task_is_refused_and_a_repeat_is_not(
    gateway: GatewayService, http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    await speaker.session()
    await speaker.task(status="completed")
    assert await code_of(http, "SendMessage", message=SAID | {"taskId": TASK}) == UNSUPPORTED
    assert await code_of(http, "SubscribeToTask", id=TASK) == UNSUPPORTED
    wrong = SAID | {"taskId": TASK, "contextId": "s2"}
    assert await code_of(http, "SendMessage", message=wrong) == INVALID


async def test_without_the_sdk_the_routes_say_what_to_install(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a_routes, "find_spec", lambda _: None)
    for answered in (
        await http.get("/.well-known/agent-card.json"),
        await http.post("/a2a", json=asking("GetTask", id=TASK)),
        await http.get("/a2a/rest/tasks"),
    ):
        assert answered.status_code == 501
        assert "pentad[a2a]" in answered.json()["detail"]


def test_the_gateway_is_composed_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the routes is loaded anew, with no package of the extra to be had."""
    for name in ("a2a", "google", "google.protobuf", "sse_starlette"):
        monkeypatch.setitem(sys.modules, name, None)
    for loaded in [name for name in sys.modules if name.startswith("pentad.services.gateway.protocols.a2a.")]:
        monkeypatch.delitem(sys.modules, loaded)
    __import__("pentad.services.gateway.protocols.a2a.a2a_routes")


async def test_a_turn_streams_and_its_repeat_tells_it_again(
    gateway: GatewayService, http: httpx2.AsyncClient, store: Store, speaker: Speaker
) -> None:
    body = asking("SendStreamingMessage", message=SAID | {"contextId": "s1"})

    async def told() -> list[dict[str, Any]]:
        answered = await http.post("/a2a", json=body, headers=VERSION)
        return [json.loads(line[6:])["result"] for line in answered.text.splitlines() if line.startswith("data: ")]

    async def is_appended() -> bool:
        return bool(await store.call("XLEN", INBOUND.template))

    first = asyncio.create_task(told())
    await wait_until("the message is appended", is_appended)
    await speaker.session({"role": "user", "content": "hi", "message_id": "m1"})
    await speaker.task()
    await speaker.turn("m1")
    results = await first
    assert list(results[0]) == ["task"]
    texts = [each["artifactUpdate"]["artifact"]["parts"][0]["text"] for each in results if "artifactUpdate" in each]
    assert texts == ["42", ""]
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_turn_whose_events_are_gone_is_told_by_its_task(
    gateway: GatewayService, http: httpx2.AsyncClient, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_updates, "HEARTBEAT_S", 0.1)
    await speaker.session({"role": "user", "content": "hi", "message_id": "m1"})
    await speaker.task(status="completed")
    body = asking("SendMessage", message=SAID | {"contextId": "s1"})
    done = (await http.post("/a2a", json=body, headers=VERSION)).json()["result"]["task"]
    assert (done["id"], done["status"]["state"]) == (TASK, "TASK_STATE_COMPLETED")


async def test_a_quiet_stream_shows_that_it_lives_and_ends_with_the_gateway(
    redis_url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "HEARTBEAT_S", 0.05)
    await begun(store, tenant="default")
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(redis_url))
        http = await stack.enter_async_context(rest(service, None))
        subscribing = http.stream("GET", f"/a2a/rest/tasks/{TASK}:subscribe")
        response = await stack.enter_async_context(subscribing)
        lines = response.aiter_lines()
        async with in_time():
            shown = json.loads((await anext(lines)).removeprefix("data: "))
            assert shown["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            assert [await anext(lines) for _ in range(3)] == ["", ": alive", ""]
            await service.stop()
            assert {line async for line in lines} <= {"", ": alive"}
