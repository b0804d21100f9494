"""A user of Redis who may do what docs/redis.md says and nothing else: the system starts, has turns, is examined."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.keys import OLD_INBOUND_LEASE
from pentad.shared.store.key_kinds import kind_of
from tests.support.clients.line import Line
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
    assert refused <= {"info", "config|get", OLD_INBOUND_LEASE}
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
