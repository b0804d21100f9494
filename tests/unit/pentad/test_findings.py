"""What the doctor says about what it saw: each failure with something to do."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from pentad.cli.doctor.command import programs_finding
from pentad.cli.doctor.diagnosis import Diagnosis, Group, WorkStream
from pentad.cli.doctor.findings import Finding, healthy, of_readiness, of_redis, shown, tools_findings
from pentad.cli.doctor.open_calls import MAX_CALLS, ToolQueue, WaitingCall
from pentad.cli.render import Style
from pentad.shared.store.server import Server

GOOD = Server("Valkey 9.1.2", 9, "primary", (), "noeviction", 0, 10, True, None, None)
SERVED = Group("router", True, 0, 0, 1, 1)


def stream(*groups: Group, length: int = 0) -> WorkStream:
    return WorkStream("inbound", "pentad:inbound", length, "router", groups, ("router",))


def seen(server: Server = GOOD, *work: WorkStream) -> Diagnosis:
    return Diagnosis(server, 0.2, "everysec", shards=(0,), work=work)


def worst(diagnosis: Diagnosis) -> Finding:
    order = ("fail", "warn", "note", "ok")
    return min(of_redis("redis://h", True, diagnosis), key=lambda finding: order.index(finding.level))


@pytest.mark.parametrize(
    ("server", "level", "do"),
    [
        (GOOD, "ok", ""),
        (replace(GOOD, missing=("XAUTOCLAIM",)), "fail", "give REDIS_URL the address of a Redis >= 7.0"),
        (replace(GOOD, major=6), "fail", "give REDIS_URL the address of a Redis >= 7.0"),
        (replace(GOOD, cluster_size=3), "fail", "give the address of a Redis that has all keys"),
        (replace(GOOD, cluster_size=1), "ok", ""),
        (replace(GOOD, watched=("10.0.0.1:6379 (main)",)), "fail", "give the address of the primary that it watches"),
        (replace(GOOD, role="replica"), "fail", "point REDIS_URL to the primary"),
        (replace(GOOD, policy="volatile-lru"), "fail", "set maxmemory-policy noeviction"),
        (replace(GOOD, limit=100, used=95), "warn", "raise maxmemory"),
        (replace(GOOD, aof=False), "warn", "set appendonly yes"),
        (replace(GOOD, policy=None, limit=None), "ok", ""),
        (replace(GOOD, policy=None, limit=None, used=None), "note", "see to it yourself that maxmemory-policy"),
        (replace(GOOD, aof=None), "note", "see to it yourself that appendonly"),
    ],
)
def test_a_server_that_would_lose_work_is_found(server: Server, level: str, do: str) -> None:
    found = worst(seen(server))
    assert (found.level, found.do[: len(do)]) == (level, do)


@pytest.mark.parametrize(
    ("why", "level"),
    [("WRONGTYPE Operation against a key", "fail"), ("NOPERM User u has no permissions to run 'xinfo'", "warn")],
)
def test_what_could_not_be_looked_at_is_named(why: str, level: str) -> None:
    found = worst(replace(seen(), unseen=(("pentad:inbound", why),)))
    assert (found.level, "pentad:inbound" in found.detail, bool(found.do)) == (level, True, True)


@pytest.mark.parametrize(
    ("work", "level"),
    [
        (stream(SERVED), "ok"),
        (stream(), "ok"),
        (stream(length=1), "fail"),
        (stream(replace(SERVED, active=0)), "ok"),
        (stream(replace(SERVED, active=0, pending=1)), "fail"),
        (stream(replace(SERVED, active=0, lag=1)), "fail"),
        (stream(replace(SERVED, active=0, lag=None)), "fail"),
        (stream(replace(SERVED, lag=9, pending=9)), "ok"),
        (stream(SERVED, Group("audit", False, 0, 0, 0, 0)), "warn"),
        (stream(SERVED, Group("audit", False, 5, 0, 1, 1)), "warn"),
        (stream(SERVED, Group("audit", False, 5, 0, 1, 0)), "fail"),
    ],
)
def test_a_group_that_nobody_serves_is_found(work: WorkStream, level: str) -> None:
    assert worst(seen(GOOD, work)).level == level


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"checks": {"redis": "gone", "router": None}}, ["redis: gone"]),
        ({"redis": "gone", "router": "ok"}, ["redis: gone"]),
        ({"checks": {"router": {"redis": "gone", "loop": "dead"}}}, ["router redis: gone", "router loop: dead"]),
        (None, [""]),
        (["odd"], [""]),
    ],
)
def test_each_complaint_of_a_gateway_that_is_not_ready_is_told(body: Any, names: list[str]) -> None:
    found = list(of_readiness("http://g", 503, body))
    assert len(found) == len(names)
    assert all(name in finding.detail and finding.do for name, finding in zip(names, found, strict=True))
    assert not healthy(found)


def test_a_finding_says_what_to_do_on_a_line_of_its_own() -> None:
    text = shown(Finding("redis", "fail", "gone\x1b[2J", "start it"), Style(False))
    assert text.splitlines() == ["fail  redis        gone[2J", " " * 19 + "do: start it"]


def test_a_warning_is_no_failure() -> None:
    assert healthy([Finding("a", "warn", ""), Finding("b", "note", "")])


@pytest.mark.parametrize(("field", "level"), [("inbound_full", "fail"), ("inbound_ahead", "warn")])
def test_an_inbound_stream_whose_ids_run_out_is_named_with_what_to_do(field: str, level: str) -> None:
    said: dict[str, Any] = {field: "the ids of pentad:inbound are odd: run `pentad inbound renew`"}
    found = worst(replace(seen(), **said))
    assert (found.level, found.name, found.do) == (level, "inbound ids", "run `pentad inbound renew`")


def test_a_note_of_readiness_is_no_failure() -> None:
    said = {"gateway.redis": "away", "gateway.inbound_ids": "note: ahead of the clock"}
    assert [finding.detail for finding in of_readiness("http://h", 503, said)] == [
        "http://h is not ready: gateway.redis: away"
    ]


def test_a_variable_that_a_tool_misses_is_a_warning_with_both_names() -> None:
    tools = [{"name": "pay", "alive": True, "missing_env": ["BANK_KEY"]}, {"name": "look", "alive": True}]
    found = list(tools_findings(tools))
    assert [(each.level, each.detail) for each in found] == [
        ("warn", "pay reads the variable BANK_KEY, which is not set"),
        ("ok", "tool-workers of the last minute have all 2 tools"),
    ]
    assert found[0].do.startswith("set it where the tool-worker runs")
    assert healthy(found)


QUEUE = "pentad:{0}:tools:default"
TAKEN = WaitingCall("weather", "task-0-a", 12.0, "worker-1", 2.0)


def open_call(waits_s: float) -> WaitingCall:
    return WaitingCall("weather", "task-0-a", waits_s)


@pytest.mark.parametrize(
    ("queue", "level"),
    [
        (ToolQueue(QUEUE, 0, 1, silent=(TAKEN,)), "fail"),
        (ToolQueue(QUEUE, 1, 1, silent=(TAKEN,)), "warn"),
        (ToolQueue(QUEUE, 0, 1, untaken=(open_call(0.1),)), "fail"),
        (ToolQueue(QUEUE, 1, 1, untaken=(open_call(9),)), "warn"),
        (ToolQueue(QUEUE, 1, 1, untaken=(open_call(0.1),)), "ok"),
        (ToolQueue(QUEUE, 1, 3), "ok"),
    ],
)
def test_a_call_that_waits_for_a_tool_worker_is_no_good_news(queue: ToolQueue, level: str) -> None:
    found = worst(replace(seen(), calls=(queue,)))
    assert found.level == level
    assert level == "ok" or (found.name, bool(found.do)) == ("calls", True)


def test_of_many_calls_the_oldest_are_named() -> None:
    queue = ToolQueue(QUEUE, 0, 500, untaken=tuple(map(open_call, range(MAX_CALLS))))
    detail = worst(replace(seen(), calls=(queue,))).detail
    oldest = "weather of task-0-a for 19.0 s, weather of task-0-a for 18.0 s"
    assert detail.startswith(f"20 tool calls or more wait ({oldest}, ")
    assert detail.count("weather") == 3


def test_the_missing_interpreter_of_programs_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = programs_finding()
    assert (found.level, "pydantic-monty 1." in found.detail) == ("ok", True)

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("pentad.cli.doctor.command.version", missing)
    found = programs_finding()
    assert (found.level, "run_program is not offered" in found.detail) == ("warn", True)
    assert "pip install 'pentad[code]'" in found.do
