"""The live system over HTTP: who may see it, that its numbers move, and that it stays small whatever is in Redis."""

import asyncio
from typing import Any

import httpx2
import pytest

from pentad.contracts.operations import Operations
from pentad.contracts.streams import TASK_WAKE, TOOL_CALLS
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.operator.live_system import MAX_SERVICES, MAX_STREAMS
from pentad.services.gateway.operator.live_tasks import MAX_TASKS, MAX_TENANTS
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared import metrics
from pentad.shared.keys import PROCESSES, TaskKeys, places, task_index
from pentad.shared.presence.processes import ServiceWork, recent_processes, report_process
from pentad.shared.presence.totals import read_totals, tell_totals
from pentad.shared.service.process import cancel_and_wait
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_instructions import problem
from tests.integration.gateway.test_tool_servers import asking
from tests.support.waiting import wait_until

MOST_BYTES = 256 << 10
"""Bytes that an answer has at most, whatever lies in Redis."""


async def operations(http: httpx2.AsyncClient) -> Operations:
    answer = await http.get("/v1/operations")
    assert answer.status_code == 200, answer.text
    assert len(answer.content) < MOST_BYTES
    return Operations.model_validate_json(answer.content)


async def until(http: httpx2.AsyncClient, what: str, holds: Any) -> Operations:
    """Wait for a document of which something holds."""

    async def look() -> Operations | None:
        found = await operations(http)
        return found if holds(found) else None

    found = await wait_until(what, look)
    assert isinstance(found, Operations)
    return found


async def test_only_the_operator_sees_it(redis_url: str) -> None:
    async with asking(redis_url, pentad_api_keys="k:acme", pentad_admin_key="boss") as http:
        assert (await http.get("/v1/operations")).status_code == 401
        http.headers["authorization"] = "Bearer k"
        assert "admin key" in problem(await http.get("/v1/operations"), 403)
        token = (await http.post("/v1/tokens", json={"session_id": "s1", "may": ["read"]})).json()["token"]
        http.headers["authorization"] = f"Bearer {token}"
        assert (await http.get("/v1/operations")).status_code == 403
        http.headers["authorization"] = "Bearer boss"
        assert {each.tenant_id for each in (await operations(http)).tasks.tenants} == {"acme", "default"}
        hostile = "&".join(f"limit=%ff{n}&cursor=-1&tenant=%00" for n in range(300))
        assert (await http.get(f"/v1/operations?{hostile}")).status_code == 200, "it has no parameters"
        assert (await http.post("/v1/operations", json={"a": 1})).status_code == 405


async def test_it_is_made_once_for_all_who_ask_within_a_second(http: httpx2.AsyncClient, store: Store) -> None:
    first = await operations(http)
    await until(http, "another", lambda one: one.at != first.at)
    before = await _looks(store)
    found = await until(http, "one more", lambda one: one.at != first.at)
    of_one = max(len(found.streams), await _looks(store) - before)
    await wait_until("its end", lambda: _is_over(http, found.at))
    before = await _looks(store)
    await asyncio.gather(*(operations(http) for _ in range(20)))
    assert await _looks(store) - before < 3 * of_one, "each of those who asked had it made"


async def _looks(store: Store) -> int:
    """How often Redis was asked for consumer groups."""
    about = await store.redis.info("commandstats")
    return int(about.get("cmdstat_xinfo|groups", {"calls": 0})["calls"])


async def _is_over(http: httpx2.AsyncClient, at: str) -> bool:
    return (await operations(http)).at != at


async def test_it_tells_how_far_a_stream_and_its_group_are(http: httpx2.AsyncClient, store: Store) -> None:
    key = TOOL_CALLS.key(0, queue="default")
    for number in range(3):
        await store.call("XADD", key, f"{number + 1}-0", "data", "x" * 100_000)
    await store.call("XGROUP", "CREATE", key, "tool-worker", "0")
    await store.call("XGROUP", "CREATE", key, "nosy", "$")
    await store.call("XREADGROUP", "GROUP", "tool-worker", "w1", "COUNT", 1, "STREAMS", key, ">")
    found = await operations(http)
    [calls] = [each for each in found.streams if each.key == key]
    ours, foreign = calls.groups
    assert (calls.stream, calls.shard, calls.queue, calls.length) == ("tool-calls", 0, "default", 3)
    assert (ours.name, ours.lag, ours.pending, ours.consumers, ours.active) == ("tool-worker", 2, 1, 1, 1)
    assert ours.oldest_s is not None
    assert ours.oldest_s > 1e9
    assert (foreign.name, foreign.pending, foreign.oldest_s) == ("nosy", 0, None)
    await store.call("XACK", key, "tool-worker", "1-0")
    moved = await until(http, "the acknowledgement", lambda one: _of(one, key).pending == 0)
    assert _of(moved, key).lag == 2
    [wakes] = [each for each in found.streams if each.key == TASK_WAKE.key(0)]
    assert (wakes.length, wakes.groups) == (0, [])


def _of(found: Operations, key: str) -> Any:
    return next(each for each in found.streams if each.key == key).groups[0]


async def test_a_worker_is_told_with_its_queues_and_one_that_stops_is_not(
    http: httpx2.AsyncClient, redis_url: str
) -> None:
    settings = load_settings({}, redis_url=redis_url, pentad_plugins="tests.support.plugins.queued_tools")
    worker = ToolWorker(settings)
    await worker.start()
    try:
        found = await until(http, "the worker", lambda one: _workers(one) and one.tools.alive)
        [told] = _workers(found)
        assert told.alive
        assert "default" in told.queues
        assert len(told.queues) > 1
        assert {each.queue for each in found.streams if each.queue} == {*told.queues}
        assert all(each.release == told.release for each in found.services)
        assert found.tools.alive == found.tools.total > 5
    finally:
        await worker.stop()
    await until(http, "its end", lambda one: not _workers(one))


def _workers(found: Operations) -> list[Any]:
    return [each for each in found.services if each.service == "tool-worker"]


async def test_a_service_that_falls_silent_is_told_as_silent_for_a_minute(store: Store) -> None:
    reporting = asyncio.create_task(report_process(store, "router", "router-1", lambda: ServiceWork(3, ("a",))))

    async def reports() -> Any:
        return await store.call("HGETALL", PROCESSES)

    flat = await wait_until("a report", reports)
    now = await store.clock()
    [(name, report)] = recent_processes(flat, now)
    assert (name, report.service, report.under_way, report.queues, report.alive(now)) == (
        *("router-1", "router", 3, ("a",)),
        True,
    )
    assert [each.alive(now + 10_000) for _, each in recent_processes(flat, now + 10_000)] == [False]
    assert recent_processes(flat, now + 90_000) == []
    assert await store.call("TTL", PROCESSES) > 0
    await cancel_and_wait(reporting)
    assert await reports() == []


async def test_totals_grow_by_what_a_process_has_counted_itself(store: Store) -> None:
    await tell_totals(store)
    before = await read_totals(store)
    metrics.turn_seconds.labels("completed").observe(0.1)
    metrics.model_tokens.labels("m", "input").inc(7)
    metrics.model_tokens.labels("m", "cached").inc(5)
    elsewhere = metrics.CountsOfProcess()
    elsewhere.add([("pentad_model_tokens_total", ["m", "input"], [1000.0])])  # that process tells it itself
    await tell_totals(store)
    await tell_totals(store)
    grown = {name: number - before[name] for name, number in (await read_totals(store)).items()}
    assert grown == {"turns": 1, "steps": 0, "input_tokens": 7, "output_tokens": 0, "tool_calls": 0}


async def make_task(store: Store, tenant: str, number: int, status: str = "active", goal: str = "a goal") -> str:
    """A task of Redis with what lists of it need."""
    task = f"task-0-{number:020x}"
    keys = TaskKeys(0, tenant, task)
    header = {"status": status, "session": "s1", "goal": goal, "instruction": "executor"}
    header |= {"created": str(1000 + number), "updated": "2000", "step": "1"}
    await store.call("HSET", keys.header, *(word for pair in header.items() for word in pair))
    await store.call("ZADD", task_index(0, tenant), 1000 + number, task)
    return task


async def test_the_operator_sees_active_tasks_of_all_tenants_and_stops_one(store: Store, redis_url: str) -> None:
    old = await make_task(store, "acme", 1)
    new = await make_task(store, "unheard-of", 2, "waiting")
    await make_task(store, "acme", 3, "completed")
    await store.call("HSET", places(0), "acme", 2, "acme/s1", 2, "?acme", 1, "?acme/s1", 4)
    async with asking(redis_url, pentad_api_keys="k:acme", pentad_admin_key="boss") as http:
        http.headers["authorization"] = "Bearer boss"
        found = (await until(http, "both tenants", lambda one: len(one.tasks.newest) == 2)).tasks
        assert [(each.task_id, each.tenant_id, each.status) for each in found.newest] == [
            (new, "unheard-of", "waiting"),
            (old, "acme", "active"),
        ]
        assert found.oldest is not None
        assert found.oldest.task_id == old
        assert (found.active, found.queued, found.by_status) == (2, 5, {"active": 1, "waiting": 1})
        first = found.tenants[0]
        assert (await operations(http)).left_out == {"tasks": 1}, "one active task is counted and was not found"
        assert (first.tenant_id, first.active, first.queued) == ("acme", 2, 5)
        listed = (await http.get("/v1/tasks", params={"tenant": "unheard-of"})).json()["items"]
        assert [each["task_id"] for each in listed] == [new]
        shown = await http.get(f"/v1/tasks/{new}", params={"tenant": "unheard-of"})
        assert (shown.status_code, shown.json()["status"]) == (200, "waiting")
        stopped = await http.post(f"/v1/tasks/{new}/cancel", params={"tenant": "unheard-of"})
        assert stopped.status_code == 202
        assert await store.call("EXISTS", TaskKeys(0, "unheard-of", new).signals)
        assert (await http.get(f"/v1/tasks/{old}/transcript", params={"tenant": "acme"})).status_code == 403
        http.headers["authorization"] = "Bearer k"
        for asked in (
            http.get("/v1/tasks", params={"tenant": "unheard-of"}),
            http.get(f"/v1/tasks/{new}", params={"tenant": "unheard-of"}),
            http.post(f"/v1/tasks/{old}/cancel", params={"tenant": "acme"}),
        ):
            assert "admin key" in problem(await asked, 403)


@pytest.mark.parametrize("tenant", ["", "a/b", "x" * 200, "a*", "default:x", "\x00", "Ä"])
async def test_a_tenant_that_is_no_name_is_refused(http: httpx2.AsyncClient, tenant: str) -> None:
    for path in ("/v1/tasks", "/v1/tasks/task-0-1"):
        assert "tenant" in problem(await http.get(path, params={"tenant": tenant}), 422)


async def test_it_stays_small_and_says_what_it_left_out(store: Store, redis_url: str) -> None:
    """Security: neither a thousand tenants nor text of any length makes the answer large or slow to make."""
    for number in range(MAX_TENANTS + 20):
        await make_task(store, f"t{number}", number, goal="g" * 10_000)
    for number in range(MAX_TASKS + 50):
        await make_task(store, "many", 1000 + number)
    await store.call("HSET", places(0), "many", 5, "a:b", 1, "\xff", 7, "?", "x", "evil\n", 3)
    now = await store.clock()
    for number in range(MAX_SERVICES + 30):
        await report(store, f"router-{number}", now, "m" * 64)
    await store.call("HSET", PROCESSES, "broken", "{", "\xff", "[]")
    await store.call("SET", TASK_WAKE.key(0), "no stream")
    async with running(redis_url, pentad_shards=1) as service, rest(service) as http:
        found = await until(http, "the tenants", lambda one: one.left_out.get("tenants"))
        assert found.left_out["services"] >= 30
        assert found.left_out["tasks"] > 0
        assert len(found.tasks.tenants) == MAX_TENANTS
        assert found.tasks.tenants[0].tenant_id == "many"
        assert len(found.tasks.newest) <= MAX_TASKS
        assert max(len(each.goal) for each in found.tasks.newest) <= 120
        assert next(each for each in found.streams if each.key == TASK_WAKE.key(0)).groups == []


async def report(store: Store, name: str, now: int, machine: str) -> None:
    from pentad.shared.presence.processes import ProcessReport

    told = ProcessReport(
        at=now, service="router", release="1", machine=machine, pid=1, started_at="2030-01-01T00:00:00Z", under_way=0
    )
    await store.call("HSET", PROCESSES, name, told.to_json())


async def test_of_many_shards_the_streams_with_work_are_told(redis_url: str, store: Store) -> None:
    key = TASK_WAKE.key(60)
    await store.call("XADD", key, "*", "data", "x")
    async with running(redis_url, pentad_shards=64) as service, rest(service) as http:
        found = await operations(http)
    assert len(found.streams) == MAX_STREAMS
    assert found.left_out["streams"] > 100
    assert key in {each.key for each in found.streams}


def rest(service: GatewayService) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=service.address, trust_env=False, timeout=30)
