"""The tests' failovers lose what they say, and nothing else."""

import pytest
from redis.asyncio import Redis
from redis.exceptions import ReadOnlyError

from tests.support.redis.failover import End, Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until


async def _replicated(redis: Redis) -> None:
    assert await redis.wait(1, 10_000) == 1


@pytest.mark.parametrize("old", ["killed", "paused", "demoted"])
async def test_a_new_primary_has_what_was_replicated_and_lacks_the_tail(old: End) -> None:
    seen: list[bytes] = []

    def check(new: RedisServer) -> None:
        seen.append(new.command("EXISTS", "kept") + new.command("EXISTS", "lost"))

    async with Redundant(aof="no") as redundant, Redis.from_url(redundant.url) as redis:
        await redis.set("kept", 1)
        await _replicated(redis)
        redundant.hold_back()
        await redis.set("lost", 1)
        await redundant.take_over(old, 0.001, check)
        async with Redis.from_url(redundant.url) as new:
            assert [await new.exists("kept"), await new.exists("lost")] == [1, 0]
            await new.set("again", 1)
            await _replicated(new)
        if old == "demoted":
            with pytest.raises(ReadOnlyError):  # the old connection is where it was
                await redis.set("late", 1)
    assert seen == [b":1\r\n:0\r\n"]


async def test_a_demoted_primary_refuses_writes_and_keeps_everything() -> None:
    async with Redundant(aof="no") as redundant, Redis.from_url(redundant.url) as redis:
        await redis.set("kept", 1)
        redundant.primary.demote()
        with pytest.raises(ReadOnlyError):
            await redis.set("kept", 2)
        redundant.primary.promote()
        await redis.set("more", 1)
        await wait_until("the replica to have it", lambda: b":2" in redundant.replica.command("DBSIZE"))
        assert await redis.get("kept") == b"1"
