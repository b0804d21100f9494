"""Who may come in, and how every refusal looks."""

import asyncio
import inspect

import httpx2
import pytest
from pydantic_core import from_json

from pentad.services.gateway.api_docs.openapi import document
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.composition import ROUTE_GROUPS
from pentad.services.gateway.edge.operations import operations_of
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.support.waiting import PATIENCE_S

PROBLEM = "application/problem+json"
BOLT = {"Authorization": "Bearer kb"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/tasks/", 404),
        ("DELETE", "/v1/tools", 405),
        ("GET", "/v1/messages", 405),
        ("GET", "/v1/tasks/task-0-nope", 404),
        ("GET", "/v1/tasks/task-7-nope", 404),
        ("GET", "/v1/tasks/a%0A", 404),
        ("GET", "/v1/tasks/..%2f..%2fetc", 404),
        ("GET", "/v1/tasks/task-0-nope/transcript", 404),
        ("POST", "/v1/tasks/task-0-nope/cancel", 404),
        ("POST", "/v1/tasks/x/cancel", 404),
        ("POST", "/v1/tasks/task-0-nope/pause", 404),
        ("POST", "/v1/tasks/task-0-nope/resume", 404),
        ("POST", "/v1/tasks/task-0-nope/archive", 404),
        ("GET", "/v1/tasks/task-0-nope/pause", 405),
        ("GET", "/v1/sessions/nope/messages", 404),
        ("GET", "/v1/sessions/a%20b/messages", 400),
        ("GET", "/v1/sessions/s1%0A/messages", 400),
        ("GET", "/v1/sessions/s1/events?after=x", 400),
        ("GET", "/v1/tasks?limit=0", 422),
        ("GET", "/v1/tasks?limit=x", 422),
        ("GET", "/v1/tasks?cursor=x", 422),
        ("GET", "/v1/tasks?status=bogus", 422),
        ("GET", "/v1/sessions?cursor=%00", 422),
        ("POST", "/v1/messages?wait=nan", 422),
        ("POST", "/v1/messages?wait=-1", 422),
    ],
)
async def test_every_refusal_is_a_problem_document(
    http: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await http.request(method, path, content=b'{"content":"x"}' if method == "POST" else None)
    assert (response.status_code, response.headers["content-type"]) == (status, PROBLEM)
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]


async def test_a_tenant_sees_only_its_own(redis_url: str, store: Store) -> None:
    acme = Speaker(store, tenant="acme")
    await acme.task()
    await acme.session({"role": "user", "content": "secret"})
    await acme.say("task_start", goal="secret")
    async with (
        running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, status in (("ka", 200), ("kb", 404), ("kc", 401), ("", 401)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            for path in (f"/v1/tasks/{TASK}", f"/v1/tasks/{TASK}/transcript", "/v1/sessions/s1/messages"):
                response = await http.get(path, headers=headers)
                assert response.status_code == status
                assert status == 200 or response.headers["content-type"] == PROBLEM
        for what in ("cancel", "pause", "resume", "archive"):
            assert (await http.post(f"/v1/tasks/{TASK}/{what}", headers=BOLT)).status_code == 404
        assert (await http.get("/v1/tasks", headers=BOLT)).json()["items"] == []
        assert (await http.get("/v1/sessions", headers=BOLT)).json()["items"] == []
        assert (await http.get("/healthz")).status_code == 200


async def test_metrics_on_loopback_are_not_for_a_name_that_another_site_has_bound_to_it(redis_url: str) -> None:
    """A page that rebinds its name to 127.0.0.1 sends no key, and ``/metrics`` on loopback asks for none."""
    async with (
        running(redis_url, pentad_api_keys="ka:acme") as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False) as http,
    ):
        assert (await http.get("/metrics")).status_code == 200
        for header in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            refused = await http.get("/metrics", headers=header)
            assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)


async def test_two_who_say_who_they_are_are_neither(redis_url: str) -> None:
    async with (
        running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False) as http,
    ):
        for keys in (("ka", "kb"), ("kb", "nobody"), ("ka", "ka")):
            response = await http.get("/v1/tasks", headers=[("Authorization", f"Bearer {key}") for key in keys])
            assert (response.status_code, response.headers["content-type"]) == (400, PROBLEM)


async def test_a_session_of_the_same_name_tells_another_tenant_its_own_events_alone(
    redis_url: str, store: Store
) -> None:
    acme, bolt = Speaker(store, tenant="acme"), Speaker(store, tenant="bolt")
    await acme.say("task_start", goal="secret")
    await bolt.say("task_start", goal="old")
    async with (
        running(redis_url, pentad_api_keys="ka:acme,kb:bolt") as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
        opened(service.address, "session_id=s1&after=0", additional_headers=BOLT) as client,
        http.stream("GET", "/v1/sessions/s1/events", headers=BOLT) as stream,
    ):
        told = (from_json(line[6:])["goal"] async for line in stream.aiter_lines() if line.startswith("data: "))
        async with asyncio.timeout(PATIENCE_S):
            seen = [((await client.receive())["goal"], await anext(told))]
            await acme.say("task_start", goal="secret")
            await bolt.say("task_start", goal="new")
            seen.append(((await client.receive())["goal"], await anext(told)))
            await told.aclose()
    assert seen == [("old", "old"), ("new", "new")]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "evil.example@127.0.0.1"}, 403),
        ({"Host": "127.0.0.1/evil.example"}, 403),
        ({"Host": "local\thost"}, 403),
        ({"Origin": "http://evil.example@127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1234"}, 403),
        ({"Origin": "http://localhost:3000", "Host": "localhost:8080"}, 403),
        ({"Origin": "http://127.0.0.1:8080", "Host": "localhost:8080"}, 403),
        ({"Origin": "http://LOCALHOST:8080", "Host": "localhost:8080"}, 200),
        ({"Origin": "http://localhost", "Host": "localhost:80"}, 200),
        ({"Origin": "https://[::1]:8443", "Host": "[::1]:8443"}, 200),
        ({"Origin": "file://localhost:8080", "Host": "localhost:8080"}, 403),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
    ],
)
async def test_the_open_gateway_serves_this_machine_only(
    http: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    for path in ("/v1/tasks", "/metrics", "/readyz"):
        assert (await http.get(path, headers=headers)).status_code == status


async def test_health_metrics_and_documents(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/readyz")).status_code == 200
    assert "pentad_websocket_connections" in (await http.get("/metrics")).text
    assert (await http.get("/openapi.json")).json()["openapi"].startswith("3.1")


@pytest.mark.parametrize("keys", ["", "sesame:acme"])
async def test_the_root_says_what_this_is_without_a_key(redis_url: str, keys: str) -> None:
    async with (
        running(redis_url, pentad_api_keys=keys or None) as service,
        httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        data = (await http.get("/")).json()
        page = await http.get("/", headers={"Accept": "text/html,*/*"})
        assert (await http.get(data["openapi"])).json()["openapi"].startswith("3.1")
        assert (await http.get(data["asyncapi"])).status_code == 200
        foreign = await http.get("/", headers={"Host": "evil.example"})
    assert page.headers["content-type"].startswith("text/html")
    assert all(place in page.text for place in ("/openapi.json", "/asyncapi.json", "docs/"))
    assert "sesame" not in page.text + str(data)
    assert foreign.status_code == (200 if keys else 403), "an open gateway answers to names of this machine only"


def test_the_openapi_document_names_every_operation_once() -> None:
    documented = [
        (method.upper(), path) for path, methods in document(ROUTE_GROUPS)["paths"].items() for method in methods
    ]
    declared = [
        (each.method, each.path.replace(":path}", "}")) for group in ROUTE_GROUPS for each, _ in operations_of(group)
    ]
    health = [("GET", path) for path in ("/healthz", "/readyz", "/metrics")]
    assert sorted(documented) == sorted([*declared, *health])


async def test_what_the_document_names_is_what_the_gateway_serves(gateway: GatewayService) -> None:
    assert {type(group) for group in gateway._parts.groups} == set(ROUTE_GROUPS)


@pytest.mark.parametrize("group", ROUTE_GROUPS)
def test_every_handler_of_a_group_of_routes_is_declared(group: type) -> None:
    """Promise: a handler that is not documented does not exist."""
    handlers = {name for name, value in vars(group).items() if inspect.iscoroutinefunction(value) and name[0] != "_"}
    assert handlers == {name for _, name in operations_of(group)}


async def test_the_gateway_refuses_to_be_open_to_others(gateway: GatewayService, redis_url: str) -> None:
    from pentad.services.gateway.app import build
    from pentad.shared.errors import SettingsError
    from pentad.shared.settings import load_settings

    with pytest.raises(SettingsError, match="PENTAD_API_KEYS"):
        build(load_settings({}, redis_url=redis_url), "0.0.0.0")
