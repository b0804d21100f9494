"""A planned failover behind a stable address: the running system goes on by itself."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.support.clients.line import Line
from tests.support.processes.crew import FIVE, crew
from tests.support.redis.failover import Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def test_a_running_system_follows_its_primary(tmp_path: Path) -> None:
    """Open connections stay with the old primary, which answers READONLY for ever."""
    async with Redundant() as redis, crew(redis.url, tmp_path / "run", {"gateway": 1, **FIVE}) as team:
        before = team.pids()
        [gateway] = team.named("gateway")
        async with Line(gateway.url, "s1") as line:
            await line.turn("what is 6*7?")
            for count in (2, 3):
                old = redis.primary
                await redis.take_over("demoted", lag_s=0)
                await line.turn("what is 2**10?", count=count)
                await wait_until("nobody to be left behind", partial(_deserted, old))
        assert [f["result"] for f in line.answers("tool_result")] == ["42", "1024", "1024"]
        await asyncio.gather(*(team.ready(p) for p in team.processes))
        assert team.pids() == before


def _deserted(server: RedisServer) -> bool:
    """Whether nobody but who asks is connected."""
    return server.command("CLIENT", "LIST", "TYPE", "normal").count(b"id=") == 1
