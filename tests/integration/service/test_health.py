"""The three pages of every service."""

import json
from collections.abc import AsyncIterator

import pytest

from pentad.shared.service.http import HttpServer, health_app
from tests.integration.service.asking import get
from tests.integration.service.raw_http import exchange
from tests.unit.service.test_running import Part


@pytest.fixture
def parts() -> list[Part]:
    return [Part("router", []), Part("archiver", [])]


@pytest.fixture
async def address(parts: list[Part]) -> AsyncIterator[str]:
    server = HttpServer(health_app(parts))
    yield await server.start()
    await server.stop()


async def test_ready_is_200_and_otherwise_says_what_is_wrong(address: str, parts: list[Part]) -> None:
    assert (await get(f"{address}/readyz"))[0] == 200
    parts[1].wrong = "no connection to the records"
    status, body = await get(f"{address}/readyz")
    assert status == 503
    assert json.loads(body) == {"router.store": None, "archiver.store": "no connection to the records"}
    assert (await get(f"{address}/healthz"))[0] == 200


async def test_health_is_503_once_a_part_has_died(address: str, parts: list[Part]) -> None:
    parts[0].living = False
    assert await get(f"{address}/healthz") == (503, "dead: router")


async def test_metrics_are_open_on_loopback(address: str) -> None:
    status, page = await get(f"{address}/metrics")
    assert status == 200
    assert "pentad_websocket_connections" in page


@pytest.mark.parametrize(
    ("keys", "given", "status"),
    [
        (("k",), "k", 200),
        (("m", "k"), "k", 200),
        (("m", "k"), "m", 200),
        (("m", "k"), "x", 401),
        (("k",), None, 401),
        ((), None, 401),
        ((), "", 401),
    ],
)
async def test_metrics_elsewhere_need_one_of_the_keys(
    parts: list[Part], keys: tuple[str, ...], given: str | None, status: int
) -> None:
    server = HttpServer(health_app(parts, metrics_keys=keys))
    address = await server.start()
    assert (await get(f"{address}/metrics", given))[0] == status
    await server.stop()


async def test_a_refusal_of_metrics_is_a_problem_document(parts: list[Part]) -> None:
    server = HttpServer(health_app(parts, metrics_keys=("k",)))
    address = await server.start()
    status, body = await get(f"{address}/metrics")
    await server.stop()
    assert (status, json.loads(body)["status"]) == (401, 401)


@pytest.mark.parametrize("header", ["Host: evil.example", "Host: localhost\r\nOrigin: https://evil.example"])
async def test_on_loopback_names_and_pages_of_others_are_refused(address: str, header: str) -> None:
    request = f"GET /metrics HTTP/1.1\r\n{header}\r\nConnection: close\r\n\r\n"
    status, data = await exchange(address, request.encode())
    assert status == 403
    assert json.loads(data.partition(b"\r\n\r\n")[2].split(b"\r\n")[1])["status"] == 403


async def test_a_server_can_be_stopped_twice_and_frees_its_port(parts: list[Part]) -> None:
    server = HttpServer(health_app(parts))
    address = await server.start()
    await server.stop()
    await server.stop()
    again = HttpServer(health_app(parts), port=int(address.rpartition(":")[2]))
    assert await again.start() == address
    await again.stop()
