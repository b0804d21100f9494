"""A user of Redis who may do what docs/redis.md says and nothing else: the system starts, has turns, is examined."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

import pentad
from pentad.contracts.quotes import quotes_in
from pentad.contracts.streams import SERVICES
from pentad.shared.store.trouble import kind_of
from tests.support.clients.line import Line
from tests.support.documents.redis_users import service_users
from tests.support.processes.crew import FIVE, Crew, crew
from tests.support.processes.system import ROOT
from tests.support.processes.up import PENTAD
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.refusing import say
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


def documented(user: str) -> list[str]:
    """The rules of a user in docs/redis.md, with the password ``pw``."""
    found = re.search(rf"ACL SETUSER {user} (.*)", (ROOT / "docs" / "redis.md").read_text())
    assert found is not None
    return found[1].replace("PASSWORD", "pw").split()


REFUSED = (
    ("HSET", "pentad:models", "evil", "{}"),
    ("HSET", "pentad:instructions", "executor", "{}"),
    ("DEL", "pentad:instructions"),
    ("HSET", "pentad:graphs", "executor", "{}"),
    ("DEL", "pentad:graphs"),
    ("HSET", "pentad:http-tools", "evil", "{}"),
    ("HSET", "pentad:plugin-reload", "word", "evil"),
    ("EVAL", "return redis.call('HSET', KEYS[1], 'a', 'b')", "1", "pentad:models"),
    ("EVAL", "return redis.call('HSET', 'pentad:models', 'a', 'b')", "0"),
    ("XADD", "pentad:inbound", "*", "data", "{}"),
    ("XADD", "pentad:{0}:erase", "*", "data", "{}"),
    ("ZADD", "pentad:{0}:session:default:s1:mail", "1", "x"),
    ("HGETALL", "pentad:{pentad:inbound}:lease"),
    ("XRANGE", "pentad:dead", "-", "+"),
    ("SET", "elsewhere", "x"),
    ("CONFIG", "GET", "requirepass"),
    ("ACL", "SETUSER", "tool-worker", "allkeys"),
    ("FUNCTION", "FLUSH"),
    ("FLUSHALL",),
)
"""What whoever has the tool-worker's address may not do."""


async def test_each_service_works_as_a_user_of_its_own_and_the_tool_workers_has_no_operators_power(
    tmp_path: Path,
) -> None:
    """Security: whoever has a tool-worker's address registers nothing, does not speak as a user, erases nothing."""
    async with RedisServer(aof="everysec") as server:
        for name, rules in service_users("pw").items():
            say(server, "ACL", "SETUSER", name, *rules)
        urls: dict[str, str] = {name: server.url.replace("//", f"//{name}:pw@") for name in SERVICES}
        counts = {"gateway": 1, **FIVE}
        settings = {"PENTAD_GRACE_S": "1", "PENTAD_PLUGINS": "tests.support.plugins.counted_tools"}
        settings["PENTAD_ADMIN_KEY"] = "boss"
        team = Crew(server.url, tmp_path / "run", counts, settings, urls=urls)
        async with team, Bus(server.url) as bus:
            [gateway] = team.named("gateway")
            async with Line(gateway.url, "s1") as line:
                await _use_tools(line)
                await wait_until("a hook that is run, and fails its step", lambda: _hook_fails(line))
            await _change_tools(gateway.url)
            await wait_until("the archived tasks", lambda: _tasks_gone(bus))
            assert all(log.read_text().count("NOPERM") == 0 for log in team.directory.glob("*.log"))
            refused = {(entry["username"], entry["object"]) for entry in await bus.redis.acl_log()}
        assert {what for _, what in refused} <= {"info", "config|get"}, refused
        async with Bus(urls["tool-worker"]) as worker:
            for command in REFUSED:
                with pytest.raises(RedisError, match="permissions"):
                    await worker.redis.execute_command(*command)


async def _use_tools(line: Line) -> None:
    """Every kind of call to its end: built in, of a plug-in, failing, ending its process, and all of the memory."""
    told = []
    for name, args in (("memory_note", {"text": "the locker code is 4711"}), ("fails", {}), ("dies", {})):
        told += await _called(line, name, args)
    assert len(told) == 3, told

    async def found() -> list[str]:
        [result] = await _called(line, "memory_search", {"query": "what is the locker code?"})
        return [quote.anchor for quote in quotes_in(result) if "4711" in quote.text]

    anchors = await wait_until("what was noted", found)
    for name in ("memory_expand", "memory_forget"):
        [result] = await _called(line, name, {"anchor": anchors[0]})
        assert "error" not in result, (name, result)


async def _change_tools(address: str) -> None:
    """Register an endpoint, have the plug-ins imported anew, and remove the endpoint."""
    async with pentad.connect(address, admin_key="boss") as agent:
        await agent.management.register_tool(name="endpoint", url="http://127.0.0.1:9/")

        async def is_there() -> bool:
            return any(each["name"] == "endpoint" and each["alive"] for each in await agent.inspection.tools())

        await wait_until("a worker has the endpoint", is_there)
        told = await agent.management.reload_plugins()
        assert [each["state"] for each in told["workers"]] == ["done"]
        await agent.management.delete_tool("endpoint")
        live = await agent.inspection.operations()
        assert {each.service for each in live.services if each.alive} == {*SERVICES}
        assert live.totals.turns > 0


async def _hook_fails(line: Line) -> bool:
    """Task-runners look once a second which hooks there are."""
    ends = len(line.answers("task_end")) + 1
    end = await line.turn("error", ends, task_id="new", instruction="simple")
    return bool(end["reason"] == "hook_error")


async def _called(line: Line, tool: str, args: dict[str, Any]) -> list[str]:
    before = len(line.answers("tool_result"))
    await line.turn(f"[[{tool} {json.dumps(args)}]]", len(line.answers("task_end")) + 1, task_id="new")
    return [str(e.get("result") or e.get("error")) for e in line.answers("tool_result")[before:]]


async def test_the_documented_rules_are_enough(tmp_path: Path) -> None:
    async with RedisServer(aof="everysec") as server, Bus(server.url) as bus:
        for user in ("pentad", "producer"):
            say(server, "ACL", "SETUSER", user, *documented(user))
        url = server.url.replace("//", "//pentad:pw@")
        async with crew(url, tmp_path / "run", {"gateway": 1, **FIVE}, PENTAD_GRACE_S="1") as team:
            [gateway] = team.named("gateway")
            async with Line(gateway.url, "s1") as line:
                await line.turn("what is 6*7?")
            async with Bus(server.url.replace("//", "//producer:pw@")) as producer:
                await producer.send("what is 6*7?", "s2")
            await bus.until("s2", "task_end")
            assert (await bus.answer(await bus.ask_to_embed(["a text"], "here")))["error"] is None
            await wait_until("the archived tasks", lambda: _tasks_gone(bus))
            report = await asyncio.to_thread(_doctor, team, gateway.url)
            kinds = {key: await bus.redis.type(key) for key in await bus.redis.keys("*")}
        assert all(log.read_text().count("NOPERM") == 0 for log in team.directory.glob("*.log"))
        refused = {entry["object"] for entry in await bus.redis.acl_log()}
    assert report["ok"] is True, report
    assert {f["level"] for f in report["findings"] if f["name"] in ("memory", "persistence")} == {"note"}
    assert [key for key in kinds if not key.startswith("pentad:")] == []
    assert {key: kind for key, kind in kinds.items() if kind_of(key) not in (kind, None)} == {}
    unknown = [key for key in kinds if kind_of(key) is None and not key.startswith("pentad:in-use:")]
    assert unknown == []
    assert refused <= {"info", "config|get"}
    print(f"\n{len(kinds)} keys, all under pentad:; not allowed and not missed: {sorted(refused)}")


async def _tasks_gone(bus: Bus) -> bool:
    return not [key async for key in bus.redis.scan_iter(match="pentad:{0}:task:*")]


def _doctor(team: Crew, gateway: str) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENTAD_")}
    environment = kept | {"REDIS_URL": team.redis_url, "PENTAD_DATA_DIR": str(team.directory)}
    done = subprocess.run(
        [str(PENTAD), "doctor", "--json", "--url", gateway],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report
