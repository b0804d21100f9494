"""Pages in a browser: which sites' may read."""

import httpx2

from pentad.services.gateway.app import GatewayService
from tests.integration.gateway.conftest import opened, running
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


async def test_a_plain_request_to_the_websocket_says_what_a_proxy_must_pass_on(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/ws?session_id=s1", headers={"Connection": "close"})
    assert (answer.status_code, answer.headers["content-type"]) == (426, "application/problem+json")
    assert "Upgrade" in answer.json()["detail"]
