"""Access tokens over the wire: what a page can do with one, and what it cannot."""

import asyncio
import contextlib
import json
import logging
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import pentad
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent, MessageEvent, TaskUsage
from pentad.contracts.records import Task, TaskRecord
from pentad.contracts.streams import INBOUND
from pentad.contracts.tokens import DEFAULT_TTL_S
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.composition import ROUTE_GROUPS
from pentad.services.gateway.edge import access
from pentad.services.gateway.edge.operations import operations_of
from pentad.shared.metrics import exposition
from pentad.shared.presence.sign_ins import CALLBACK_PATH
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import NO_TLS, Client, opened, running
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.support.waiting import PATIENCE_S, in_time, wait_until

KEYS = "ka:acme,kb:bolt"
APP = "https://app.example.com"
OTHER = "task-0-other"
GUARDED = ("/v1/", "/agui", "/mcp", "/a2a")
ALL_RIGHTS = ["read", "send", "approve"]
NEARLY_MS = DEFAULT_TTL_S * 1000 - 500
"""Age of a token that ends in half a second."""


def rest(service: GatewayService, secret: str | None = None, **headers: str) -> httpx2.AsyncClient:
    held = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return httpx2.AsyncClient(
        base_url=service.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S, headers={**held, **headers}
    )


async def token_for(service: GatewayService, key: str = "ka", **asked: Any) -> str:
    async with rest(service, key) as http:
        given = await http.post("/v1/tokens", json={"session_id": "s1", "may": ["read", "send"]} | asked)
    assert given.status_code == 200, given.text
    token: str = given.json()["token"]
    return token


def bearing(token: str) -> dict[str, Any]:
    """Options of a WebSocket as a browser opens it, which can send no header."""
    return {"subprotocols": ["pentad.v1", f"bearer.{token}"]}


async def closed_with(client: Client) -> int:
    """The code with which the gateway closes a connection, after whatever frames still come."""
    async with in_time():
        with contextlib.suppress(ConnectionClosed):
            async for _ in client.connection:
                pass
    return client.connection.close_code or 0


async def inbound(store: Store) -> list[dict[str, Any]]:
    entries = await store.call("XRANGE", INBOUND.template, "-", "+")
    return [json.loads(dict(zip(fields[::2], fields[1::2], strict=True))[b"data"]) for _, fields in entries]


class Clock:
    """The wall clock of the gateways in this process, which stands still until a test sets it."""

    def __init__(self) -> None:
        self.now_ms = 1_900_000_000_000

    def __call__(self) -> int:
        return self.now_ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which no token ends because a machine is busy."""
    clock = Clock()
    monkeypatch.setattr(access, "time_ns", clock)
    return clock


@pytest.fixture
async def acme(store: Store) -> Speaker:
    """Tenant acme's session s1 with a task, beside its session s2 with another."""
    speaker, other = Speaker(store, tenant="acme"), Speaker(store, "s2", tenant="acme")
    await speaker.session({"role": "user", "content": "q", "message_id": "m1"})
    keys = await speaker.task()
    await store.call("RPUSH", keys.log, f'{{"at":"{AT}","message_id":"m1"}}\n{{"role":"user","content":"q"}}')
    await store.call("HSET", keys.big, "call-0-a", "the whole")
    await other.session({"role": "user", "content": "secret", "message_id": "m2"})
    await other.task(OTHER)
    return speaker


async def test_reading_sees_its_session_and_no_other(redis_url: str, acme: Speaker) -> None:
    async with (
        running(redis_url, pentad_api_keys=KEYS) as service,
        rest(service, await token_for(service, may=["read"])) as page,
    ):
        for path in (
            "/v1/sessions/s1/messages",
            "/v1/tasks",
            "/v1/tasks?session_id=s1",
            f"/v1/tasks/{TASK}",
            f"/v1/tasks/{TASK}/transcript",
            f"/v1/tasks/{TASK}/values/call-0-a",
        ):
            assert (await page.get(path)).status_code == 200, path
        assert [task["task_id"] for task in (await page.get("/v1/tasks")).json()["items"]] == [TASK]
        for path in ("/v1/sessions/s2/messages", "/v1/sessions/s2/events", "/v1/tasks?session_id=s2"):
            async with in_time():  # events that it let through would not end
                refused = await page.get(path)
            assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), path
        for task in (OTHER, "task-0-none", "task-9-none", "x"):
            for path in ("", "/transcript", "/values/call-0-a"):
                assert (await page.get(f"/v1/tasks/{task}{path}")).status_code == 404, (task, path)
        for what in ("cancel", "pause", "resume", "move"):
            refused = await page.post(f"/v1/tasks/{TASK}/{what}", json={"message_id": "m1", "to": "new"})
            assert (refused.status_code, "may not send" in refused.json()["detail"]) == (403, True), what
        assert (await page.post("/v1/messages", json={"content": "hi"})).status_code == 403
    assert not await acme.store.call("EXISTS", (await acme.task()).signals)


async def test_a_task_of_another_session_is_not_there_also_when_it_is_archived(
    redis_url: str, acme: Speaker, tmp_path: Any
) -> None:
    where = str(tmp_path / "records")
    about: dict[str, Any] = {
        "status": "completed",
        "goal": "g",
        "instruction": "executor",
        "created_at": AT,
        "updated_at": AT,
    }
    about |= {"steps": 1, "archived_at": AT}
    for name, session in (("task-0-here", "s1"), ("task-0-there", "s2")):
        task = Task.model_validate(about | {"task_id": name, "session_id": session, "usage": TaskUsage()})
        await Records(where).write(TaskRecord(tenant_id="acme", task=task, messages=[], steps=[]))
    async with (
        running(redis_url, pentad_api_keys=KEYS, pentad_records_url=where) as service,
        rest(service, await token_for(service)) as page,
    ):
        assert (await page.get("/v1/tasks/task-0-here")).json()["archived_at"] == AT
        for name in ("task-0-there", "task-0-none"):
            there = [await page.get(f"/v1/tasks/{name}"), await page.post(f"/v1/tasks/{name}/cancel")]
            for source, to in ((name, "new"), (TASK, name)):
                moved = {"message_id": "m1", "to": to}
                there.append(await page.post(f"/v1/tasks/{source}/move", json=moved))
            assert [answer.status_code for answer in there] == [404] * 4, name


async def test_sending_is_for_its_session_and_its_user(redis_url: str, acme: Speaker) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        async with rest(service, await token_for(service, may=["send"], user_id="alice")) as page:
            sent = await page.post("/v1/messages", json={"content": "hi", "tenant_id": "bolt"})
            assert (sent.status_code, sent.json()["session_id"]) == (202, "s1")
            for more in ({"session_id": "s2"}, {"user_id": "bob"}):
                assert (await page.post("/v1/messages", json={"content": "no"} | more)).status_code == 403, more
            waits = await page.post("/v1/messages?wait=0", json={"content": "no"})
            assert waits.status_code == 403, "it may not read"
            assert (await page.post("/v1/messages", json={"content": "hi", "user_id": "alice"})).status_code == 202
            for what in ("cancel", "pause", "resume"):
                assert (await page.post(f"/v1/tasks/{TASK}/{what}")).status_code == 202
                assert (await page.post(f"/v1/tasks/{OTHER}/{what}")).status_code == 404
            moving = {"message_id": "m1", "to": "new"}
            assert (await page.post(f"/v1/tasks/{TASK}/move", json=moving)).status_code == 202
            for source, message, to in ((OTHER, "m2", "new"), (TASK, "m1", OTHER)):
                asked = {"message_id": message, "to": to}
                assert (await page.post(f"/v1/tasks/{source}/move", json=asked)).status_code == 404, source
            assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 403, "it may not read"
        async with rest(service, await token_for(service)) as page:
            assert (await page.post("/v1/messages", json={"content": "no", "user_id": "alice"})).status_code == 403
    found = [(each["tenant_id"], each["session_id"], each.get("user_id")) for each in await inbound(acme.store)]
    assert found == [("acme", "s1", "alice")] * 2


async def test_no_route_but_those_of_its_session_is_open_to_any_token(redis_url: str, acme: Speaker) -> None:
    open_to_tokens = {
        ("GET", "/v1/sessions/{session}/messages"),
        ("GET", "/v1/sessions/{session}/events"),
        ("GET", "/v1/sessions/{session}/files"),
        *((method, "/v1/sessions/{session}/files/{path:path}") for method in ("GET", "PUT", "DELETE")),
        ("GET", "/v1/tasks"),
        ("GET", "/v1/tasks/{task}"),
        ("GET", "/v1/tasks/{task}/transcript"),
        ("GET", "/v1/tasks/{task}/values/{ref}"),
        ("GET", "/v1/tasks/{task}/path"),
        ("POST", "/v1/tasks/{task}/cancel"),
        ("POST", "/v1/tasks/{task}/pause"),
        ("POST", "/v1/tasks/{task}/resume"),
        ("POST", "/v1/tasks/{task}/move"),
        ("POST", "/agui"),
        ("GET", "/agui/runs/{run}"),
        ("POST", "/mcp"),
        ("POST", "/a2a"),
        *((method, "/a2a/rest/{call:path}") for method in ("GET", "POST", "DELETE")),
        ("GET", "/v1/approvals"),
        ("POST", "/v1/tasks/{task}/approvals/{tool_call_id}"),
        ("POST", "/v1/tasks/{task}/calls/{tool_call_id}/result"),
        ("POST", "/v1/messages"),
        ("GET", "/v1/runs/{message_id}"),
    }
    declared = [each for group in ROUTE_GROUPS for each, _ in operations_of(group) if each.path.startswith(GUARDED)]
    assert {(each.method, each.path) for each in declared if each.right is not None} == open_to_tokens
    for settings in ({"pentad_api_keys": KEYS, "pentad_admin_key": "admin"}, {}):
        async with (
            running(redis_url, **settings) as service,
            rest(service, await token_for(service, may=ALL_RIGHTS)) as page,
        ):
            for each in declared:
                if (each.method, each.path) in open_to_tokens or each.path == CALLBACK_PATH:  # that is open to all
                    continue
                path = each.path.replace("{session}", "s1").replace("{task}", TASK).replace("{step}", "1")
                answer = await page.request(each.method, path.replace("{", "").replace("}", ""))
                found = (answer.status_code, answer.headers["content-type"], answer.json()["code"])
                assert found == (403, "application/problem+json", "not_allowed"), path
    assert await acme.store.call("EXISTS", (await acme.task()).header), "nothing was erased"


async def test_another_tenant_of_the_same_names_sees_its_own(redis_url: str, acme: Speaker) -> None:
    async with (
        running(redis_url, pentad_api_keys=KEYS) as service,
        rest(service, await token_for(service, "kb")) as page,
    ):
        assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 404
        assert (await page.get("/v1/sessions/s1/messages")).status_code == 404
        assert (await page.post(f"/v1/tasks/{TASK}/cancel")).status_code == 404
        assert (await page.post("/v1/messages", json={"content": "mine"})).status_code == 202
    assert [each["tenant_id"] for each in await inbound(acme.store)] == ["bolt"]


async def test_an_event_source_follows_with_the_token_in_the_address(redis_url: str, acme: Speaker) -> None:
    await acme.say("task_start", goal="ours")
    await Speaker(acme.store, tenant="bolt").say("task_start", goal="theirs")
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service) as http:
        token = await token_for(service)
        async with in_time(), http.stream("GET", "/v1/sessions/s1/events", params={"token": token}) as stream:
            assert stream.status_code == 200
            said = await anext(line async for line in stream.aiter_lines() if line.startswith("data: "))
        assert '"ours"' in said
        sends = await token_for(service, may=["send"])
        statuses = [
            (await http.get("/v1/sessions/s1/events", params={"token": sends})).status_code,
            (await http.get("/v1/sessions/s2/events", params={"token": token})).status_code,
            (await http.get("/v1/sessions/s1/messages", params={"token": token})).status_code,
            (await http.get("/v1/tasks", params={"token": token})).status_code,
            (await http.post("/v1/tokens", params={"token": token})).status_code,
            (await http.post("/v1/messages", params={"token": token}, json={"content": "hi"})).status_code,
            (await http.get("/v1/sessions/s1/events", params={"token": token[:-1]})).status_code,
            (await http.get("/v1/sessions/s1/events", params={"token": "ka"})).status_code,
            (await http.get(f"/v1/sessions/s1/events?token={token}&token={token}")).status_code,
            (await http.get("/v1/sessions/s1/events?token=")).status_code,
        ]
    assert statuses == [403, 403, *[401] * 8]


async def test_a_web_socket_opens_with_a_subprotocol_on_the_tokens_session(redis_url: str, acme: Speaker) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service, user_id="alice")
        for query in ("", "session_id=s1"):
            async with opened(service.address, query, **bearing(token)) as client:
                assert client.session["session_id"] == "s1"
                assert client.connection.subprotocol == "pentad.v1"
                entry = await acme.say("task_start", goal="g")
                assert (await client.receive())["id"] == entry
                await client.send(type="message", content="hi", message_id=f"m-{query}")
                assert (await client.receive())["type"] == "accepted"
                for frame in (
                    {"type": "message", "content": "no", "message_id": "m-no", "session_id": "s2"},
                    {"type": "message", "content": "no", "message_id": "m-no", "user_id": "bob"},
                ):
                    await client.send(**frame)
                    refused = await client.receive()
                    assert (refused["code"], refused["message_id"]) == (ErrorCode.NOT_ALLOWED, "m-no")
                await client.send(type="cancel", task_id=OTHER)
                assert (await client.receive())["code"] == ErrorCode.UNKNOWN_TASK
                await client.send(type="move", message_id="m1", to=OTHER)
                assert (await client.receive())["code"] == ErrorCode.UNKNOWN_TASK
    assert [(each["session_id"], each["user_id"]) for each in await inbound(acme.store)] == [("s1", "alice")] * 2


async def test_a_web_socket_of_a_token_that_reads_alone_sends_nothing(redis_url: str, acme: Speaker) -> None:
    async with (
        running(redis_url, pentad_api_keys=KEYS) as service,
        opened(service.address, **bearing(await token_for(service, may=["read", "approve"]))) as client,
    ):
        for frame in (
            {"type": "message", "content": "no"},
            {"type": "cancel", "task_id": TASK},
            {"type": "pause", "task_id": TASK},
            {"type": "resume", "task_id": TASK},
            {"type": "move", "message_id": "m1", "to": "new"},
        ):
            await client.send(**frame)
            assert (await client.receive())["code"] == ErrorCode.NOT_ALLOWED, frame
        await client.send(type="ping")
        assert (await client.receive()) == {"type": "pong"}
    assert await inbound(acme.store) == []
    assert not await acme.store.call("EXISTS", (await acme.task()).signals)


@pytest.mark.parametrize(("query", "may"), [("session_id=s2", ["read"]), ("session_id=s1", ["send"]), ("", ["send"])])
async def test_a_web_socket_that_the_token_is_not_for_is_told_why_and_closed(
    redis_url: str, acme: Speaker, query: str, may: list[str]
) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        url = f"ws{service.address.removeprefix('http')}/v1/ws?{query}"
        async with connect(url, proxy=None, **bearing(await token_for(service, may=may))) as connection, in_time():
            refused = json.loads(await connection.recv())
            assert (refused["type"], refused["code"]) == ("error", ErrorCode.NOT_ALLOWED)
            await connection.wait_closed()
    assert connection.close_code == 1008


async def test_a_web_socket_ends_with_its_token(redis_url: str, acme: Speaker, clock: Clock) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service)
        clock.now_ms += NEARLY_MS
        async with opened(service.address, **bearing(token)) as client:
            clock.now_ms -= NEARLY_MS  # a clock that steps back lengthens nothing that is open
            assert await closed_with(client) == 4401
        clock.now_ms += DEFAULT_TTL_S * 1000
        url = f"ws{service.address.removeprefix('http')}/v1/ws?session_id=s1"
        async with connect(url, proxy=None, **bearing(token)) as connection, in_time():
            await connection.wait_closed()
        assert (connection.close_code, "ended" in (connection.close_reason or "")) == (4401, True)


async def test_a_web_socket_that_never_pauses_ends_with_its_token_too(
    redis_url: str, acme: Speaker, clock: Clock
) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service)
        clock.now_ms += NEARLY_MS
        async with opened(service.address, **bearing(token)) as client:

            async def flood() -> None:
                while True:
                    await client.connection.send('{"type":"ping"}')
                    await asyncio.sleep(0)  # the gateway runs in this loop, too

            flooding = asyncio.create_task(flood())
            assert await closed_with(client) == 4401
            with pytest.raises(ConnectionClosed):
                await flooding


async def test_a_web_socket_whose_client_leaves_all_unread_ends_with_its_token_too(
    redis_url: str, acme: Speaker, clock: Clock
) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service)
        clock.now_ms += NEARLY_MS
        async with opened(service.address, **bearing(token), max_queue=1) as client:
            for _ in range(3):
                await acme.say("task_start", goal="g" * 1_000_000)
            await wait_until(
                "the gateway to let go", lambda: "pentad_websocket_connections 0.0" in exposition()[0].decode()
            )
            late = await acme.say("task_start", goal="late")
            async with in_time():
                with contextlib.suppress(ConnectionClosed):
                    async for frame in client.connection:
                        assert json.loads(frame).get("id") != late
        assert client.connection.close_code == 4401


async def test_server_sent_events_and_waits_end_with_their_token(redis_url: str, acme: Speaker, clock: Clock) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service)
        clock.now_ms += NEARLY_MS
        async with rest(service, token) as page, in_time():
            waited = await page.post("/v1/messages?wait=600", json={"content": "hi"})
            assert waited.status_code == 202
            async with page.stream("GET", "/v1/sessions/s1/events") as stream:
                assert stream.status_code == 200
                assert [line async for line in stream.aiter_lines() if line.startswith("data")] == []
            clock.now_ms += 500
            assert (await page.get("/v1/sessions/s1/events")).status_code == 401


async def test_a_token_outlives_a_restart_and_holds_at_every_gateway(redis_url: str, acme: Speaker) -> None:
    async with (
        running(redis_url, pentad_api_keys=KEYS) as first,
        running(redis_url, pentad_api_keys=KEYS) as other,
    ):
        token = await token_for(first)
        async with rest(other, token) as page:
            assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 200
    async with running(redis_url, pentad_api_keys=f"kn:acme,{KEYS}") as again, rest(again, token) as page:
        assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 200
    async with running(redis_url, pentad_api_keys="kn:acme,kb:bolt") as rotated, rest(rotated, token) as page:
        assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 401
        url = f"ws{rotated.address.removeprefix('http')}/v1/ws"
        async with in_time(), connect(url, proxy=None, **bearing(token)) as gone:
            await gone.wait_closed()
        assert gone.close_code == 4401


async def test_a_page_of_an_allowed_site_uses_a_token_and_others_may_not_read(redis_url: str, acme: Speaker) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    allowed = "access-control-allow-origin"
    async with running(redis_url, pentad_api_keys=KEYS, pentad_cors_origins=APP) as service:
        token = await token_for(service)
        async with rest(service, Origin=APP) as page:
            assert (await page.options("/v1/messages", headers=asks)).headers[allowed] == APP
        async with rest(service, token, Origin=APP) as page:
            sent = await page.post("/v1/messages", json={"content": "hi"})
            refused = await page.get("/v1/sessions")
            assert [(each.status_code, each.headers[allowed]) for each in (sent, refused)] == [(202, APP), (403, APP)]
        async with rest(service, token, Origin="https://evil.example") as page:
            assert allowed not in (await page.get("/v1/tasks")).headers
        async with opened(service.address, **bearing(token), additional_headers={"Origin": APP}) as client:
            assert client.session["session_id"] == "s1"


async def test_an_open_gateway_keeps_a_page_to_its_token_and_foreign_pages_out(
    redis_url: str, speaker: Speaker
) -> None:
    await speaker.task()
    await Speaker(speaker.store, "s2").task(OTHER)
    async with running(redis_url) as service:
        token = await token_for(service)
        async with rest(service, token) as page:
            assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 200
            assert (await page.get(f"/v1/tasks/{OTHER}")).status_code == 404
        async with rest(service, token[:-1]) as page:
            assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 401
        async with rest(service, token, Origin=APP) as page:
            assert (await page.get(f"/v1/tasks/{TASK}")).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"session_id":"s1","may":["read","read"]}',
        b'{"session_id":"s1","may":["read","own"]}',
        b'{"session_id":"s1","may":["read"],"ttl_s":86401}',
        b'{"session_id":"s1","may":["read"],"user":"bob"}',
        b'{"session_id":"s1","may":[' + b'"read",' * 40_000 + b'"read"]}',
        b'{"session_id":"' + b"s" * 2_000_000 + b'","may":["read"]}',
    ],
)
async def test_a_request_that_cannot_be_met_is_refused(redis_url: str, body: bytes) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service, rest(service, "ka") as http:
        refused = await http.post("/v1/tokens", content=body)
    assert refused.status_code in (400, 413, 422)
    assert len(refused.content) < 4_000


async def test_a_huge_token_is_refused_in_every_place(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        huge = "pt1." + "A" * 60_000
        async with rest(service, huge) as page:
            assert (await page.get("/v1/tasks")).status_code == 401
        async with rest(service) as page:
            assert (await page.get("/v1/sessions/s1/events", params={"token": huge})).status_code == 401
        url = f"ws{service.address.removeprefix('http')}/v1/ws"
        async with connect(url, proxy=None, **bearing("pt1." + "A" * 5_000)) as connection, in_time():
            await connection.wait_closed()
        assert connection.close_code == 4401


async def test_tokens_are_in_no_log_no_error_and_no_metric(
    redis_url: str, acme: Speaker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pentad")
    caplog.set_level(logging.INFO)
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = await token_for(service)
        secrets = token.removeprefix("pt1.").split(".")
        said = []
        async with rest(service, token) as page, in_time():
            said.append((await page.get("/v1/sessions")).text)
            async with opened(service.address, "session_id=s1", **bearing(token)) as client:
                await client.connection.send("not JSON")
                said.append(json.dumps(await client.receive()))
            clock.now_ms += NEARLY_MS
            async with opened(service.address, "session_id=s1", **bearing(token)) as client:
                assert await closed_with(client) == 4401
            clock.now_ms += 500
            said.append((await page.get("/v1/tasks")).text)
        async with rest(service) as page:
            said.append((await page.get("/v1/sessions/s1/events", params={"token": token})).text)
            said.append((await page.get(f"/v1/sessions/s1/events?token={token}&after=!")).text)
        said.append(exposition()[0].decode())
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx2")]
    assert not [text for text in said + logged if any(part in text for part in secrets)]


async def test_the_python_client_makes_a_token_and_talks_with_it(redis_url: str, acme: Speaker) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        async with pentad.connect(service.address, "ka", user_id="alice") as agent:
            token = await agent.session("s1").token(may=("read", "send"), ttl_s=60)
            with pytest.raises(pentad.Refused, match="name the session"):
                await agent.token()
            with pytest.raises(pentad.Refused, match="may"):
                await agent.session("s1").token(may=())
        async with pentad.connect(service.address, token.token) as page:
            turn = page.session("s1").turn("hi", message_id="m9")

            async def answer() -> None:
                await wait_until("the message to be accepted", lambda: inbound(acme.store))
                await acme.turn("m9", "42")

            answering = asyncio.create_task(answer())
            texts = [each.event.content async for each in turn if isinstance(each.event, MessageEvent)]
            await answering
            assert texts == ["42"]
            assert [task.task_id for task in await page.inspection.tasks(session_id="s1")] == [TASK]
            with pytest.raises(pentad.Refused, match="needs an API key"):
                await page.session("s1").token()
            with pytest.raises(pentad.Refused, match="another session"):
                async for _ in page.session("s2").send("no"):
                    pass
            events = [event async for event in page.session("s1", user_id="bob").send("no")]
            assert [event.code for event in events if isinstance(event, ErrorEvent)] == [ErrorCode.NOT_ALLOWED]
    assert [each["user_id"] for each in await inbound(acme.store)] == ["alice"]


async def test_a_client_whose_token_is_void_is_told_to_ask_for_another(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        token = (await token_for(service))[:-1]
        async with pentad.connect(service.address, token) as page:
            with pytest.raises(pentad.NotAuthorized, match="this token: it has ended") as caught:
                await page.session("s1").ask("hi")
            assert token not in str(caught.value)
            with pytest.raises(pentad.NotAuthorized, match="this token: it has ended"):
                await page.inspection.tasks()


def test_a_token_is_frozen_and_does_not_show_itself() -> None:
    token = pentad.AccessToken(token="secret", expires_at=AT)
    assert "secret" not in repr(token)
    with pytest.raises(ValueError, match="frozen"):
        token.token = "other"
