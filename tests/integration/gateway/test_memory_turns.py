"""One tenant's calls of memory do not take it from the others: a few at once, a short queue, then 429."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from pentad.contracts.memories import RecalledMemories
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.composition import ROUTE_GROUPS
from pentad.services.gateway.edge.operations import operations_of
from pentad.shared.owners import Owner
from tests.integration.gateway.conftest import running
from tests.support.waiting import wait_until

GREEDY, MODEST = ({"authorization": f"Bearer {key}"} for key in ("greedy-key", "modest-key"))
AT_ONCE, MANY = 4, 32


class Searches:
    """Searches that end when the test says so, and whose they are, in the order in which they were begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: list[asyncio.Event] = []

    async def search(self, owner: Owner, *_: Any) -> RecalledMemories:
        end = asyncio.Event()
        self._ends.append(end)
        self.begun.append(owner.tenant)
        await end.wait()
        return RecalledMemories(hits=[], tasks=[])

    def end(self, number: int) -> None:
        """Of those that were begun."""
        self._ends[number].set()


@pytest.fixture
async def gateway(redis_url: str) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_api_keys="greedy-key:greedy,modest-key:modest") as service:
        yield service


async def test_many_deep_searches_of_one_tenant_leave_the_other_its_turn(
    gateway: GatewayService, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches()
    monkeypatch.setattr(gateway._parts.memory.memories, "search", searches.search)
    deep = "/v1/memory/search?q=cat&strategy=astar&depth=6"
    async with httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=60) as http:
        greedy = [asyncio.create_task(http.get(deep, headers=GREEDY)) for _ in range(MANY)]
        refused = MANY - AT_ONCE - 4 * AT_ONCE
        await wait_until("those too many to be refused", lambda: sum(task.done() for task in greedy) == refused)
        answers = [task.result() for task in greedy if task.done()]
        assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(429, "1")}
        assert searches.begun == ["greedy"] * AT_ONCE
        modest = asyncio.create_task(http.get(deep, headers=MODEST))
        await wait_until("the other's search to be begun", lambda: searches.begun[AT_ONCE:] == ["modest"])
        searches.end(AT_ONCE)
        assert (await modest).status_code == 200
        for number in range(4 * AT_ONCE + AT_ONCE + 1):
            await wait_until("the next to be begun", lambda n=number: len(searches.begun) > n)  # type: ignore[misc]
            searches.end(number)
        assert Counter(task.result().status_code for task in await _all(greedy)) == {429: refused, 200: MANY - refused}


async def _all(tasks: list[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    await asyncio.wait(tasks)
    return tasks


async def test_a_call_that_ends_gives_its_place_to_the_next(
    gateway: GatewayService, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches()
    monkeypatch.setattr(gateway._parts.memory.memories, "search", searches.search)
    async with httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=60) as http:
        asked = [asyncio.create_task(http.get("/v1/memory/search?q=cat", headers=GREEDY)) for _ in range(AT_ONCE + 1)]
        await wait_until("the first to be begun", lambda: len(searches.begun) == AT_ONCE)
        for number in range(AT_ONCE):
            searches.end(number)
        await wait_until("the last to be begun", lambda: len(searches.begun) == AT_ONCE + 1)
        searches.end(AT_ONCE)
        assert {(await each).status_code for each in asked} == {200}


CALLS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/v1/memory/search"): {"params": {"q": "cat"}},
    ("POST", "/v1/memory/expand"): {"json": {"anchor": "s0.task:1:0"}},
    ("POST", "/v1/memory/forget"): {"json": {"ids": ["3f2504e0-4f89-11d3-9a0c-0305e82c3301"]}},
    ("POST", "/v1/memory/unforget"): {"json": {"anchor": "s0.task:1:0"}},
    ("GET", "/v1/memory/stats"): {},
    ("POST", "/v1/memory/nodes"): {"json": {"kind": "concept", "text": "Ada"}},
    ("POST", "/v1/memory/edges"): {"json": {"source": "a", "target": "b", "type": "related_to"}},
    ("GET", "/v1/memory/nodes/{node}"): {},
    ("DELETE", "/v1/memory/nodes/{node}"): {},
    ("GET", "/v1/memory/nodes/{node}/neighbours"): {},
}
OF_OPERATORS_OR_RECORDS = {
    ("POST", "/v1/memory/reindex"),
    ("POST", "/v1/memory/rebuild"),
    ("GET", "/v1/memory/rebuild"),
    ("POST", "/v1/memory/episodes"),
}
"""The admin key's, and the one that writes a record and leaves memory to the archiver, which has turns of its own."""


def test_every_route_of_memory_is_named_here() -> None:
    declared = [operation for group in ROUTE_GROUPS for operation, _ in operations_of(group)]
    routes = {(each.method, each.path) for each in declared if each.path.startswith("/v1/memory/")}
    assert routes == CALLS.keys() | OF_OPERATORS_OR_RECORDS


WORKING = {"params": {"q": "cat", "kind": "working", "session_id": "s1"}}
"""A search of what a session holds now takes its turn too."""
TURNS = [*((*route, given) for route, given in CALLS.items()), ("GET", "/v1/memory/search", WORKING)]


@pytest.mark.parametrize(("method", "path", "given"), TURNS)
async def test_every_route_of_memory_waits_for_its_tenants_turn(
    gateway: GatewayService, monkeypatch: pytest.MonkeyPatch, method: str, path: str, given: dict[str, Any]
) -> None:
    searches = Searches()
    monkeypatch.setattr(gateway._parts.memory.memories, "search", searches.search)
    places = AT_ONCE + 4 * AT_ONCE
    async with httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=60) as http:
        deep = [asyncio.create_task(http.get("/v1/memory/search?q=cat", headers=GREEDY)) for _ in range(places + 1)]
        await wait_until("all places to be taken", lambda: sum(task.done() for task in deep) == 1)
        refused = await http.request(method, path.replace("{node}", "some-node"), headers=GREEDY, **given)
        assert (refused.status_code, refused.headers.get("retry-after")) == (429, "1")
        for number in range(places):
            await wait_until("the next to be begun", lambda n=number: len(searches.begun) > n)  # type: ignore[misc]
            searches.end(number)
        await _all(deep)
