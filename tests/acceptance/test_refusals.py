"""A Redis that says no, in every way that its source knows: nothing ends or is lost, and it says what it waits for.

One system under load meets each refusal in turn, on a real server.
"""

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.crew import FIVE, Crew
from tests.support.processes.up import Up
from tests.support.redis import refusing
from tests.support.redis.bus_client import Bus, durable, twice
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.refusing import Way
from tests.support.slow import rarely
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

SESSIONS = 16
TURN = {"message_routed": 1, "task_start": 1, "tool_call": 1, "tool_result": 1, "message": 1, "task_end": 1}

WAYS: dict[str, tuple[Way, str]] = {
    "READONLY": (refusing.demoted, "this server is a replica"),
    "MASTERDOWN": (refusing.without_its_primary, "replica without its primary"),
    "OOM": (refusing.full, "raise maxmemory"),
    "MISCONF": (refusing.unable_to_save, "cannot write to its disk"),
    "NOREPLICAS": (refusing.too_few_replicas, "min-replicas-to-write"),
    "BUSY": (refusing.busy, "long script"),
    "LOADING": (refusing.loading, "loads its data"),
    "WRONGTYPE of the inbound stream": (refusing.with_a_strange_inbound, "pentad:inbound is a string, not a stream"),
    "WRONGTYPE of a work stream": (refusing.with_a_strange_wake, "pentad:{0}:wake:task is a string, not a stream"),
    "NOPERM": (refusing.forbidding, "docs/redis.md"),
    "NOAUTH": (refusing.with_a_password, "password of REDIS_URL"),
    "max number of clients": (refusing.crowded, "maxclients"),
}


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RedisServer, Crew]]:
    """One of each service, for all ways."""
    with RedisServer(aof="always") as server:
        team = Crew(server.url, tmp_path_factory.mktemp("run"), {"gateway": 1, **FIVE})
        asyncio.run(team.__aenter__())
        yield server, team
        team.stop()


async def readiness(team: Crew) -> str:
    """What every service says of itself."""
    return "\n".join(await asyncio.gather(*(asyncio.to_thread(_ask, f"{p.url}/readyz") for p in team.processes)))


def _ask(url: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return f"{reply.status} {reply.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


@asynccontextmanager
async def saying(url: str, session: str) -> AsyncIterator[None]:
    """A client that sends one message through the gateway until it is accepted, from now on."""

    async def accepted() -> bool:
        message = {"content": "what is 6*7?", "session_id": session, "message_id": f"{session}-m"}
        return (await asyncio.to_thread(_ask, f"{url}/v1/messages", message)).startswith("202")

    client = asyncio.create_task(wait_until(f"{session} to be accepted", accepted))
    yield
    await client


@pytest.mark.parametrize("way", rarely(WAYS, *list(WAYS)[:2]))
async def test_what_redis_refuses_is_waited_for(crew: tuple[RedisServer, Crew], way: str) -> None:
    server, team = crew
    refuse, words = WAYS[way]
    before = team.pids()
    name = way.replace(" ", "-")
    sessions = [f"{name}-{n}" for n in range(SESSIONS)]
    async with Bus(server.url) as bus:
        for session in sessions:
            await bus.send("what is 6*7?", session)
        await bus.until(sessions[0], "message_routed")
        async with saying(team.named("gateway")[0].url, f"{name}-edge"):
            async with refuse(server):
                await wait_until(f"a service to say {words!r}", lambda: _says(team, words))
            await wait_until("all to be ready again", lambda: _all_ready(team))
        for session in [*sessions, f"{name}-edge"]:
            await bus.until(session, "task_end")
            events = await bus.events(session)
            assert Counter(e["type"] for e in durable(events)) == TURN, session
            assert twice(events) == []
            assert {e["result"] for e in events if e["type"] == "tool_result"} == {"42"}
        assert await bus.letters("pentad:dead") == []
        assert await bus.letters("pentad:{0}:dead") == []
    assert team.pids() == before


async def _says(team: Crew, words: str) -> bool:
    return words in await readiness(team)


async def _all_ready(team: Crew) -> bool:
    return all(line.startswith("200") for line in (await readiness(team)).splitlines())


async def test_a_line_of_the_log_is_written_once_in_a_while(crew: tuple[RedisServer, Crew]) -> None:
    server, team = crew
    sizes = {f: f.stat().st_size for f in team.directory.glob("*.log")}
    async with refusing.demoted(server), Bus(server.url):
        await asyncio.sleep(3)
    lines = {f.name: f.read_bytes()[size:].count(b"\n") for f, size in sizes.items()}
    assert max(lines.values()) < 30, lines


async def test_pentad_up_outlives_a_demoted_server(tmp_path: Path) -> None:
    async with RedisServer() as server:
        with Up(tmp_path, {"REDIS_URL": server.url}) as system:
            url = await system.ready()
            async with refusing.demoted(server):
                await wait_until("it to be said", lambda: asyncio.to_thread(_ask, f"{url}/readyz"))
                await wait_until("it to be said", lambda: "replica" in _ask(f"{url}/readyz"))
            await wait_until("readiness", lambda: _ask(f"{url}/readyz").startswith("200"))
            assert _ask(f"{url}/v1/messages?wait=20", {"content": "what is 6*7?"}).startswith("200")
            assert system.returned is None
