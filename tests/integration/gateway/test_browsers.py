"""Pages in a browser: which sites' may read, and how they follow events without an API key."""

import asyncio
from time import time

import httpx2
import pytest

from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.edge.access import LIFE_S, EventTokens
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import Speaker
from tests.support.waiting import PATIENCE_S

APP = "https://app.example.com"
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
KEYS = "ka:acme,kb:bolt"


def client(service: GatewayService) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S)


async def test_pages_of_a_named_site_may_ask_and_read(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS, pentad_cors_origins=APP) as service, client(service) as http:
        preflight = await http.options("/v1/messages", headers={"Origin": APP, **ASKS})
        refused = await http.get("/v1/tasks", headers={"Origin": APP})
        read = await http.get("/v1/tasks", headers={"Origin": APP, "Authorization": "Bearer ka"})
        other = await http.get("/v1/tasks", headers={"Origin": "https://evil.example", "Authorization": "Bearer ka"})
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, APP)
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert [(r.status_code, r.headers.get("access-control-allow-origin")) for r in (refused, read, other)] == [
        (401, APP),
        (200, APP),
        (200, None),
    ]
    assert "access-control-allow-credentials" not in read.headers


async def test_without_the_setting_no_site_may(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as service, client(service) as http:
        preflight = await http.options("/v1/messages", headers={"Origin": APP, **ASKS})
    assert preflight.status_code == 401
    assert "access-control-allow-origin" not in preflight.headers


async def test_an_open_gateway_lets_in_the_sites_that_it_names_alone(redis_url: str) -> None:
    async with running(redis_url, pentad_cors_origins=APP) as service, client(service) as http:
        for origin, status in ((APP, 200), ("https://evil.example", 403), (f"{APP}.evil.example", 403)):
            assert (await http.get("/v1/tasks", headers={"Origin": origin})).status_code == status
        async with opened(service.address, additional_headers={"Origin": APP}) as socket:
            await socket.send(type="ping")
            assert (await socket.receive())["type"] == "pong"


async def test_events_are_followed_with_a_token_of_their_session(redis_url: str, store: Store) -> None:
    acme, bolt = Speaker(store, tenant="acme"), Speaker(store, tenant="bolt")
    await acme.say("task_start", goal="ours")
    await bolt.say("task_start", goal="theirs")
    async with running(redis_url, pentad_api_keys=KEYS) as service, client(service) as http:
        given = (await http.post("/v1/sessions/s1/event-token", headers={"Authorization": "Bearer ka"})).json()
        assert 0 < given["expires_at"] - time() <= LIFE_S
        token = {"token": given["token"]}
        async with asyncio.timeout(PATIENCE_S), http.stream("GET", "/v1/sessions/s1/events", params=token) as stream:
            assert stream.status_code == 200
            said = await anext(line async for line in stream.aiter_lines() if line.startswith("data: "))
        assert '"ours"' in said
        elsewhere = [
            await http.get("/v1/sessions/s2/events", params=token),
            await http.get("/v1/sessions/s1/messages", params=token),
            await http.get("/v1/tasks", params=token),
            await http.post("/v1/sessions/s1/event-token", params=token),
            await http.post("/v1/sessions/s1/events", params=token),
            await http.get("/v1/sessions/s1/events", params={"token": given["token"][:-1] + "x"}),
            await http.get("/v1/sessions/s1/events?token=a&token=b"),
            await http.get("/v1/sessions/s1/events?token="),
        ]
    assert [answer.status_code for answer in elsewhere] == [401] * 8
    assert {answer.headers["content-type"] for answer in elsewhere} == {"application/problem+json"}


async def test_a_plain_request_to_the_websocket_says_what_a_proxy_must_pass_on(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/ws?session_id=s1", headers={"Connection": "close"})
    assert (answer.status_code, answer.headers["content-type"]) == (426, "application/problem+json")
    assert "Upgrade" in answer.json()["detail"]


TOKENS = EventTokens({"ka": "acme", "kb": "bolt"})
TOKEN, END = TOKENS.issue("acme", "s1", 1000.0)


@pytest.mark.parametrize(
    ("token", "session", "now", "tenant"),
    [
        (TOKEN, "s1", 1000.0, "acme"),
        (TOKEN, "s1", END - 1, "acme"),
        (TOKEN, "s1", END, None),
        (TOKEN, "s2", 1000.0, None),
        (TOKEN.replace(str(END), str(END + 1)), "s1", 1000.0, None),
        (TOKEN + "0", "s1", 1000.0, None),
        ("", "s1", 0.0, None),
        (".", "s1", 0.0, None),
        (f"{'9' * 5000}.x", "s1", 0.0, None),
        ("٣٣٣٣.x", "s1", 0.0, None),
        (f"{END}.\ud800é", "s1", 1000.0, None),
        (f"{END}.", "s1", 1000.0, None),
    ],
)
def test_a_token_is_good_for_its_session_and_its_time(token: str, session: str, now: float, tenant: str | None) -> None:
    assert TOKENS.tenant(token, session, now) == tenant


def test_a_token_of_a_key_that_is_gone_is_none() -> None:
    assert EventTokens({"kc": "acme"}).tenant(TOKEN, "s1", 1000.0) is None
    assert EventTokens({}).tenant(EventTokens({}).issue("default", "s1", 1000.0)[0], "s1", 1000.0) is None
