"""`pentad doctor` against a real Redis, a gateway and a model server on sockets."""

import argparse
import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pentad.cli.doctor import command
from pentad.cli.doctor.diagnosis import Diagnosis, diagnose, place_of
from pentad.cli.doctor.open_calls import MAX_CALLS
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.dead_letters import DeadLetter
from pentad.shared.errors import OutageError
from pentad.shared.settings import Settings
from pentad.shared.store.wire import connect
from tests.support.clients.fake_gateway import FakeGateway, fake_gateway
from tests.support.processes.running import beside
from tests.support.redis.redis_server import RedisServer

INBOUND, WAKE = "pentad:inbound", "pentad:{0}:wake:task"
Report = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer(aof="everysec") as running:
        yield running


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Any]:
    server.command("FLUSHALL")
    yield connect(server.url)
    server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def examined(gateway: FakeGateway | None, **settings: Any) -> tuple[int, Report]:
    """The doctor's exit code and its report as JSON."""
    out: list[str] = []
    url = gateway.url if gateway else "http://127.0.0.1:1"
    known = Settings(pentad_url=url, **({"pentad_data_dir": Path("/nowhere")} | settings))
    code = await asyncio.to_thread(_run_json, known, out)
    return code, json.loads("".join(out))


def _run_json(settings: Settings, out: list[str]) -> int:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as text:
        code = command.run(argparse.Namespace(url=None, json=True), settings)
    out.append(text.getvalue())
    return code


def said(report: Report, name: str) -> list[tuple[str, str, str]]:
    return [(f["level"], f["detail"], f["do"]) for f in report["findings"] if f["name"] == name]


async def consumer_reads(redis: Any, key: str, group: str, read: int) -> None:
    """A group with one living consumer that took ``read`` entries."""
    await redis.xgroup_create(key, group, id="0", mkstream=True)
    await redis.xreadgroup(group, "worker-1", {key: ">"}, count=read)


async def test_a_healthy_system_is_well(redis: Any, server: RedisServer) -> None:
    await redis.xadd(WAKE, {"data": "{}"})
    await consumer_reads(redis, WAKE, "task-runner", 1)
    await redis.xadd(WAKE, {"data": "{}"})
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    assert code == 0
    assert report["ok"] is True
    assert [level for level, _, _ in said(report, "gateway")] == ["ok"]
    assert re.match(rf"external: (Valkey|Redis) [0-9.]+ at {server.url}", said(report, "redis")[0][1])
    assert said(report, "persistence")[0][0] == "ok"
    assert said(report, "model")[0][1].startswith("not known")
    wake = next(row for row in report["streams"] if row["key"] == WAKE)
    assert wake["length"] == 2
    assert wake["groups"] == [
        {"name": "task-runner", "expected": True, "lag": 1, "pending": 1, "consumers": 1, "active": 1}
    ]


async def test_work_that_nobody_takes_is_named_with_the_service_to_start(redis: Any, server: RedisServer) -> None:
    await redis.xadd(INBOUND, {"data": "{}"})
    await redis.xadd("pentad:{0}:tools:gpu", {"data": "{}"})
    await redis.xgroup_create("pentad:{0}:tools:gpu", "tool-worker", id="0")
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    found = said(report, "groups")
    assert code == 1
    assert [(level, detail.split(",")[0]) for level, detail, _ in found] == [
        ("fail", "nobody serves pentad:inbound"),
        ("fail", "nobody serves pentad:{0}:tools:gpu"),
    ]
    assert ["`pentad serve router`" in found[0][2], "`pentad serve tool-worker`" in found[1][2]] == [True, True]


async def test_a_silent_consumer_serves_nobody(redis: Any, server: RedisServer) -> None:
    await redis.xadd(WAKE, {"data": "{}"})
    await consumer_reads(redis, WAKE, "task-runner", 1)
    assert unserved(await diagnose(server.url, 1)) == []
    assert unserved(await diagnose(server.url, 1, active_ms=0)) == [WAKE]
    await redis.aclose()


def unserved(seen: Diagnosis) -> list[str]:
    return [stream.key for stream in seen.work if stream.unserved]


async def test_a_foreign_group_that_holds_back_trimming_is_named(redis: Any, server: RedisServer) -> None:
    await redis.xadd(WAKE, {"data": "{}"})
    await consumer_reads(redis, WAKE, "task-runner", 1)
    await redis.xgroup_create(WAKE, "audit", id="0")
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    assert code == 1
    [(level, detail, do), *_] = said(report, "groups")
    assert (level, "audit" in detail) == ("fail", True)
    assert do.endswith(f"XGROUP DESTROY {WAKE} audit")


async def test_dead_letters_are_counted_with_their_newest_reasons(redis: Any, server: RedisServer) -> None:
    for number in range(4):
        about: dict[str, Any] = {"stream": INBOUND, "entry_id": f"{number}-0", "reason": f"bad {number}", "at": "now"}
        letter = DeadLetter(kind="entry", **about, attempts=1, body={})
        await redis.xadd("pentad:dead", {"data": letter.to_json()})
    await redis.xadd("pentad:{0}:dead", {"data": b"\xff"})
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    first, second = said(report, "dead letters")
    assert code == 0
    assert first[1] == (
        "4 in pentad:dead; newest: bad 3 (pentad:inbound 3-0); bad 2 (pentad:inbound 2-0); bad 1 (pentad:inbound 1-0)"
    )
    assert (first[0], second[1]) == ("warn", "1 in pentad:{0}:dead; newest: cannot be read")


async def test_every_shard_that_has_keys_is_looked_at(redis: Any, server: RedisServer) -> None:
    await redis.xadd("pentad:{3}:wake:task", {"data": "{}"})
    await redis.xadd("pentad:{0}:events:default:s1", {"data": "{}"})
    await redis.xadd("pentad:{3}:embed:reply:x", {"data": "{}"})
    seen = await diagnose(server.url, 2)
    await redis.aclose()
    assert seen.shards == (0, 1, 3)
    assert unserved(seen) == ["pentad:{3}:wake:task"]
    assert (seen.event_streams, seen.reply_streams) == (1, 1)


async def test_an_evicting_redis_fails(redis: Any, server: RedisServer) -> None:
    await redis.config_set("maxmemory-policy", "allkeys-lru")
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    assert code == 1
    [(level, _, do)] = said(report, "memory")
    assert (level, "noeviction" in do) == ("fail", True)


async def test_without_a_running_system_each_failure_says_what_to_do() -> None:
    code, report = await examined(None, redis_url="redis://user:secret@127.0.0.1:1/0")
    assert code == 1
    assert said(report, "gateway")[0][2] == "start it with `make run` or give --url"
    [(level, detail, do)] = said(report, "redis")
    assert (level, do) == ("fail", "start Redis, or correct REDIS_URL")
    assert detail.startswith("redis://127.0.0.1:1/0 is unavailable")
    assert "secret" not in json.dumps(report)


async def test_the_embedded_redis_of_a_running_system_is_found(redis: Any, server: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "redis.url").write_text(server.url + "\n")
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, pentad_data_dir=tmp_path)
    await redis.aclose()
    assert code == 0
    assert said(report, "redis")[0][1].startswith("embedded: ")


async def test_a_gateway_that_is_not_ready_says_why() -> None:
    body = {"status": "unavailable", "checks": {"redis": "no connection", "router": None}}
    async with fake_gateway(ready_status=503, ready=body) as gateway:
        code, report = await examined(gateway)
    assert code == 1
    [(level, detail, do)] = said(report, "gateway")
    assert (level, do) == ("fail", "start Redis, or correct REDIS_URL")
    assert detail == f"{gateway.url} is not ready: redis: no connection"


@pytest.mark.parametrize(
    ("memory", "level", "detail"),
    [
        ((200, {"segments": 3, "tasks": 1}), "ok", "memory answers: 3 segments"),
        ((503, {"title": "the memory is away", "detail": "no archiver answered"}), "warn", "no archiver answered"),
        (None, "note", "without long-term memory"),
    ],
)
async def test_the_long_term_memory_is_asked_for_by_way_of_the_gateway(memory: Any, level: str, detail: str) -> None:
    async with fake_gateway(memory=memory) as gateway:
        _, report = await examined(gateway)
    [(found, text, _)] = said(report, "long-term")
    assert found == level
    assert detail in text
    assert "no gateway answers" not in text, "it has answered"


@pytest.mark.parametrize(("refused", "levels"), [(0, []), (7, ["warn"])])
async def test_spent_tokens_of_extraction_are_told_with_what_to_do(refused: int, levels: list[str]) -> None:
    stats = {"segments": 3, "nodes": 1, "extraction": {"tokens": 480, "most": 500, "refused": refused}}
    async with fake_gateway(memory=(200, stats)) as gateway:
        _, report = await examined(gateway)
    found = said(report, "extraction")
    assert [level for level, _, _ in found] == levels
    assert all("480 of 500" in text and "PENTAD_EXTRACT_TOKENS" in do for _, text, do in found)


async def test_a_wrong_key_is_its_own_finding() -> None:
    async with fake_gateway(key="right") as gateway:
        code, report = await examined(gateway, pentad_api_key="wrong")
    assert code == 1
    assert said(report, "api key")[0][2].startswith("set PENTAD_API_KEY")


async def test_a_frozen_redis_is_an_outage_in_bounded_time() -> None:
    with RedisServer() as frozen:
        frozen.pause()
        with pytest.raises(OutageError):
            await diagnose(frozen.url, 1, timeout_s=0.2)


def test_an_address_is_shown_without_its_secret() -> None:
    assert place_of("rediss://user:pw@host:1/2") == "rediss://host:1/2"


TOOL = {"name": "weather", "seen_at": "2030-01-31T12:00:00.000Z"}
MODEL = {"id": "default", "kind": "llm"}


@pytest.mark.parametrize(
    ("tools", "level", "words"),
    [
        ([TOOL | {"alive": True}], "ok", "have all 1 tools"),
        ([TOOL | {"alive": False}], "fail", "no tool-worker is there since 2030-01-31"),
        ([TOOL | {"alive": False}, {"name": "echo", "alive": True}], "warn", "no living tool-worker has weather"),
        ([], "fail", "no tool-worker has told what it has"),
    ],
)
async def test_tools_without_a_living_worker_are_named(tools: list[Report], level: str, words: str) -> None:
    async with fake_gateway(listed={"tools": tools}) as gateway:
        code, report = await examined(gateway)
    [(found, detail, do)] = said(report, "tools")
    assert (found, words in detail, bool(do)) == (level, True, level != "ok")
    assert code == (1 if level == "fail" else 0)


async def test_what_was_learned_from_a_refusal_is_told_by_way_of_the_gateway() -> None:
    """Promise: how a model is asked otherwise, because its server has refused a request, is told wherever it runs."""
    health = {"state": "ok", "since": "2030-01-31T12:00:00.000Z", "error": None, "processes": 1}
    told = {"health": health | {"learned": ["asked without stream_options"]}}
    async with fake_gateway(listed={"models": [MODEL | told]}) as gateway:
        code, report = await examined(gateway)
    [(level, detail, _)] = said(report, "models")
    assert (code, level, detail) == (0, "note", f"{MODEL['id']}: asked without stream_options")


async def test_a_key_that_the_running_system_was_refused_with_is_a_failure_seen_by_way_of_its_gateway() -> None:
    health = {"state": "open", "since": "2030-01-31T12:00:00.000Z", "error": "it answered 401", "refused": True}
    fine = MODEL | {"id": "other", "health": {"state": "unknown", "since": None, "error": None, "processes": 0}}
    async with fake_gateway(listed={"models": [MODEL | {"health": health}, fine]}) as gateway:
        code, report = await examined(gateway)
    [(level, detail, do)] = said(report, "models")
    assert (code, level, "it answered 401" in detail, "LLM_API_KEY" in do) == (1, "fail", True, True)


async def test_a_refused_key_of_the_embedding_model_names_its_own_variables() -> None:
    """Promise: the doctor says which setting to correct."""
    health = {"state": "failing", "since": "2030-01-31T12:00:00.000Z", "error": "it answered 401", "refused": True}
    async with fake_gateway(listed={"models": [MODEL | {"kind": "embedding", "health": health}]}) as gateway:
        code, report = await examined(gateway)
    [(level, _, do)] = said(report, "models")
    assert (code, level, "EMBED_API_KEY" in do, "LLM_API_KEY" in do) == (1, "fail", True, False)


TOOLS = "pentad:{0}:tools:default"


def call(number: int) -> dict[str, str]:
    """The entry of a tool call."""
    about = {
        "event_id": f"e{number}",
        "at": "",
        "tenant_id": "default",
        "session_id": "s1",
        "task_id": f"task-0-{number}",
    }
    about |= {"tool_call_id": f"call-{number}", "tool": "weather"}
    command = ToolCallCommand.model_validate(about | {"step": 1, "args": {}, "effect": "pure", "timeout": 60.0})
    return {"data": command.to_json().decode()}


async def test_a_call_whose_worker_has_died_is_named_from_the_first_moment(redis: Any, server: RedisServer) -> None:
    await redis.xadd(TOOLS, call(1))
    await consumer_reads(redis, TOOLS, "tool-worker", 1)
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    [(level, detail, do)] = said(report, "calls")
    assert (code, level) == (1, "fail")
    waits = rf"1 tool call waits \(weather of task-0-1 for [1-9]\.\d s\) in {re.escape(TOOLS)}, taken by a tool-worker"
    assert re.match(waits + r" that is gone or hangs \(worker-1 silent for [1-9]\.\d s\); no other reads it", detail)
    assert "`pentad serve tool-worker`" in do


async def test_a_call_whose_worker_renews_its_lease_is_at_work(redis: Any, server: RedisServer) -> None:
    await redis.xadd(TOOLS, call(1))
    await consumer_reads(redis, TOOLS, "tool-worker", 1)
    ((entry, _),) = await redis.xrange(TOOLS)

    async def renew() -> None:
        while True:
            await redis.xclaim(TOOLS, "tool-worker", "worker-1", 0, [entry], justid=True)
            await asyncio.sleep(0.1)  # as a worker does

    async with beside(renew()):
        seen = await diagnose(server.url, 1)
    await redis.aclose()
    assert [(queue.open, queue.workers, queue.silent, queue.untaken) for queue in seen.calls] == [(1, 1, (), ())]


async def test_calls_that_no_worker_has_taken_are_named_a_bounded_number_and_unreadable_ones_too(
    redis: Any, server: RedisServer
) -> None:
    await redis.xgroup_create(TOOLS, "tool-worker", id="0", mkstream=True)
    await redis.xadd(TOOLS, {"data": b"\xff" * 1000})
    await redis.xadd(TOOLS, {"other": "field"})
    for number in range(2 * MAX_CALLS):
        await redis.xadd(TOOLS, call(number))
    async with fake_gateway() as gateway:
        code, report = await examined(gateway, redis_url=server.url)
    await redis.aclose()
    [(level, detail, _)] = said(report, "calls")
    assert (code, level) == (1, "fail")
    unreadable = "one that cannot be read"
    assert detail.startswith(f"{MAX_CALLS} tool calls or more wait ({unreadable}, {unreadable}, weather of")
    assert detail.endswith("taken by no tool-worker; none reads it")
    assert len(detail) < 300


async def test_calls_are_looked_at_where_no_worker_has_ever_been(redis: Any, server: RedisServer) -> None:
    await redis.xadd(TOOLS, call(1))
    [queue] = (await diagnose(server.url, 1)).calls
    await redis.aclose()
    assert (queue.workers, queue.open, [one.tool for one in queue.untaken]) == (0, 1, ["weather"])
