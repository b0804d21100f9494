"""The least that consumes: redis-py on uvloop handles one entry. ``python -m tests.bench.bare_consumer URL``."""

import sys
from typing import Any


async def _consume(url: str) -> None:
    from redis.asyncio import Redis

    redis: Any = Redis.from_url(url)
    await redis.xgroup_create("bare", "g", id="0", mkstream=True)
    await redis.xadd("bare", {"data": b"{}"})
    for _, entries in await redis.xreadgroup("g", "c", {"bare": ">"}, count=1):
        await redis.xack("bare", "g", *(i for i, _ in entries))
    print("ready", flush=True)
    await redis.xread({"bare": "$"}, block=0)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_consume(sys.argv[1]))
