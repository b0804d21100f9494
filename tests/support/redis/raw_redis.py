"""Pentad for any Redis client: append to ``pentad:inbound``, and read a session's events and dead letters."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

from redis.asyncio import Redis

INBOUND = "pentad:inbound"


@asynccontextmanager
async def redis_at(url: str) -> AsyncIterator[Redis]:
    """A plain client."""
    client = Redis.from_url(url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


async def publish(url: str, *messages: Mapping[str, Any] | str) -> list[str]:
    """Append messages in one pipeline, text as it is; returns their entry ids."""
    async with redis_at(url) as redis:
        pipeline = redis.pipeline(transaction=False)
        for message in messages:
            text = message if isinstance(message, str) else json.dumps(message)
            pipeline.xadd(INBOUND, {"data": text})
        return [str(entry) for entry in await pipeline.execute()]


def events_key(session: str, tenant: str = "default", shards: int = 1) -> str:
    """Return the key of a session's event stream."""
    return f"pentad:{{{crc32(f'{tenant}/{session}'.encode()) % shards}}}:events:{tenant}:{session}"


async def events_of(url: str, session: str, tenant: str = "default") -> list[dict[str, Any]]:
    """Return a session's events from its stream, each with its ``id``."""
    return [{"id": entry_id, **json.loads(data)} for entry_id, data in await _entries(url, events_key(session, tenant))]


async def dead_letters(url: str, key: str = "pentad:dead") -> list[dict[str, Any]]:
    """Return the dead letters of a stream."""
    return [json.loads(data) for _, data in await _entries(url, key)]


async def unacknowledged(redis: Redis) -> int:
    """Inbound entries that a router has read and not yet moved for certain."""
    groups: list[dict[str, Any]] = await redis.xinfo_groups(INBOUND)
    return sum(group["pending"] for group in groups)


async def _entries(url: str, key: str) -> list[tuple[str, str]]:
    async with redis_at(url) as redis:
        entries: list[Any] = await redis.xrange(key) or []
    return [(entry_id, fields["data"]) for entry_id, fields in entries]
