"""The bus's floors: the same by hand on redis-py."""

import asyncio
import time
from typing import Any

from pydantic_core import from_json
from redis.asyncio import Redis

from pentad.shared.event_loop import cancel_all

_READ = 32


async def hops(url: str, body: bytes, count: int) -> list[float]:
    """Seconds from XADD to the reader, one at a time."""
    writer: Any = Redis.from_url(url)
    reader: Any = Redis.from_url(url)
    await writer.xgroup_create("raw", "g", id="0", mkstream=True)
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def read() -> None:
        while True:
            for _, entries in await reader.xreadgroup("g", "c", {"raw": ">"}, count=_READ, block=1000) or []:
                await reader.xack("raw", "g", *(i for i, _ in entries))
                arrived.put_nowait(None)

    task = asyncio.create_task(read())
    spent = []
    for _ in range(count):
        begun = time.perf_counter()
        await writer.xadd("raw", {"data": body})
        await arrived.get()
        spent.append(time.perf_counter() - begun)
    await cancel_all([task])
    await writer.aclose()
    await reader.aclose()
    return spent


async def _filled(url: str, body: bytes, count: int) -> Any:
    redis: Any = Redis.from_url(url, protocol=2)
    await redis.xgroup_create("full", "g", id="0", mkstream=True)
    for _ in range(count // 500):
        pipe = redis.pipeline(transaction=False)
        for _ in range(500):
            pipe.xadd("full", {"data": body})
        await pipe.execute()
    return redis


async def per_cpu_second(url: str, body: bytes, count: int) -> float:
    """Events read, parsed as JSON and acknowledged in batches, per CPU-second."""
    redis = await _filled(url, body, count)
    seen, cpu = 0, time.process_time()
    while seen < count:
        for _, entries in await redis.xreadgroup("g", "c", {"full": ">"}, count=_READ):
            for _, fields in entries:
                from_json(fields[b"data"])
            await redis.xack("full", "g", *(i for i, _ in entries))
            seen += len(entries)
    cpu = time.process_time() - cpu
    await redis.aclose()
    return count / cpu


async def transactions(url: str, body: bytes, count: int) -> float:
    """Events per CPU-second whose state is read in one pipeline a batch and written with XACK in a MULTI each."""
    redis = await _filled(url, body, count)
    seen, cpu = 0, time.process_time()
    while seen < count:
        for _, entries in await redis.xreadgroup("g", "c", {"full": ">"}, count=_READ):
            await asyncio.gather(*(_transaction(redis, entry_id, seen + n) for n, (entry_id, _) in enumerate(entries)))
            seen += len(entries)
    cpu = time.process_time() - cpu
    await redis.aclose()
    return count / cpu


async def _transaction(redis: Any, entry_id: bytes, number: int) -> None:
    pipe = redis.pipeline(transaction=False)
    pipe.hgetall(f"state:{number}")
    pipe.zrange(f"mail:{number}", 0, 63)
    await pipe.execute()
    pipe = redis.pipeline(transaction=True)
    pipe.hset(f"state:{number}", mapping={"v": 1, "last_step": entry_id})
    pipe.zremrangebyscore(f"mail:{number}", 1, 1)
    pipe.xack("full", "g", entry_id)
    await pipe.execute()
