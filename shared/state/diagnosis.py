"""What a Redis looks like to someone who has to mend it. Reads only, and changes nothing."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from redis.exceptions import RedisError, ResponseError

from contracts.streams import (
    DEAD,
    EMBED_REPLY,
    EVENTS,
    IN_SHARDS,
    INBOUND,
    INBOUND_DEAD,
    DeadLetter,
    Stream,
    queues_of,
    split_key,
)
from shared.errors import OutageError
from shared.state.in_use import ModelInUse
from shared.state.keys import IN_USE
from shared.state.wire import connect

ACTIVE_MS = 10_000
"""A consumer that asked for work within this time is alive."""
NEWEST = 3
"""Dead letters whose reasons are shown, of each stream."""
_NEEDED = ("XAUTOCLAIM", "EXPIRETIME")
"""Commands that tell Redis 7.0 from what came before; Valkey names versions of its own."""
TIMEOUT_S = 3.0
_QUEUE = "tools:"


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. ``lag``: entries not yet handed out, None when Redis cannot tell."""

    name: str
    expected: bool
    """Ours. A foreign one holds back trimming."""
    lag: int | None
    pending: int
    consumers: int
    active: int
    """Consumers that asked for work in the last ten seconds."""

    @property
    def waiting(self) -> bool:
        """Whether there is something to do."""
        return self.pending > 0 or self.lag is None or self.lag > 0


@dataclass(frozen=True, slots=True)
class WorkStream:
    """A stream that must be served."""

    name: str
    key: str
    length: int
    group: str
    groups: tuple[Group, ...]
    readers: tuple[str, ...]
    """The services that should serve it."""

    @property
    def unserved(self) -> bool:
        """Whether work waits and nobody takes it."""
        ours = next((group for group in self.groups if group.expected), None)
        return self.length > 0 if ours is None else ours.waiting and ours.active == 0

    @property
    def foreign(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if not group.expected)


@dataclass(frozen=True, slots=True)
class DeadStream:
    """Entries that were set aside, and why the newest of them were."""

    key: str
    length: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """The server itself. Sizes in bytes; ``limit`` 0 means none."""

    name: str
    missing: tuple[str, ...]
    """Commands that we need and it has not."""
    latency_ms: float
    writable: bool
    aof: bool
    fsync: str | None
    """None when the server does not say."""
    used: int
    limit: int
    policy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything at once."""

    server: Server
    shards: tuple[int, ...]
    work: tuple[WorkStream, ...]
    dead: tuple[DeadStream, ...]
    event_streams: int
    """Sessions whose events are kept."""
    reply_streams: int
    in_use: tuple[ModelInUse, ...]
    """What the running task-runners and embedding services use, each once."""


@dataclass(slots=True)
class _Found:
    """What a walk over the keys brought."""

    shards: set[int] = field(default_factory=set)
    queues: dict[int, set[str]] = field(default_factory=dict)
    events: int = 0
    replies: int = 0


def place_of(url: str) -> str:
    """Where a Redis is, without user name and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def diagnose(url: str, shards: int, *, active_ms: int = ACTIVE_MS, timeout_s: float = TIMEOUT_S) -> Diagnosis:
    """Look at a Redis. ``shards`` is what the settings say; others that have keys are looked at too.

    A consumer is active when it asked for work within ``active_ms``. One command may take ``timeout_s``.

    Raises ``OutageError`` when it does not answer.
    """
    async with _reading(url, timeout_s) as redis:
        server = await _server(redis)
        found = await _walk(redis)
        numbers = sorted(found.shards | set(range(shards)))
        work = [await _work(redis, stream, key, active_ms) for stream, key in _work_streams(numbers, found)]
        dead = [await _dead(redis, key) for key in (INBOUND_DEAD.key(), *(DEAD.key(number) for number in numbers))]
        in_use = await _in_use(redis)
    return Diagnosis(server, tuple(numbers), tuple(work), tuple(dead), found.events, found.replies, in_use)


@asynccontextmanager
async def _reading(url: str, timeout_s: float) -> AsyncIterator[Any]:
    redis = connect(url, decode_responses=True, encoding_errors="backslashreplace", socket_timeout=timeout_s)
    try:
        yield redis
    except (RedisError, OSError) as error:
        raise OutageError(str(error) or type(error).__name__) from None
    finally:
        await redis.aclose()


async def _server(redis: Any) -> Server:
    began = time.perf_counter()
    await redis.ping()
    latency = (time.perf_counter() - began) * 1000
    info = await redis.info()
    known = await redis.execute_command("COMMAND", "INFO", *_NEEDED)
    valkey = info.get("valkey_version")
    return Server(
        name=f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', '?')}",
        missing=tuple(name for name, about in zip(_NEEDED, known, strict=True) if not about),
        latency_ms=latency,
        writable=info.get("role") in ("master", None),
        aof=bool(info.get("aof_enabled")),
        fsync=await _setting(redis, "appendfsync"),
        used=int(info.get("used_memory", 0)),
        limit=int(info.get("maxmemory", 0)),
        policy=str(info.get("maxmemory_policy", "")),
    )


async def _setting(redis: Any, name: str) -> str | None:
    """A configured value; managed servers do not let everyone see them."""
    try:
        found = await redis.config_get(name)
    except ResponseError:
        return None
    return str(found[name]) if name in found else None


async def _walk(redis: Any) -> _Found:
    found = _Found()
    async for key in redis.scan_iter(match=IN_SHARDS, count=1000, _type="STREAM"):
        if (parts := split_key(key)) is not None:
            _note(found, *parts, key)
    return found


async def _in_use(redis: Any) -> tuple[ModelInUse, ...]:
    told = set()
    async for key in redis.scan_iter(match=f"{IN_USE}*", count=1000):
        with suppress(ValueError):  # of a newer version, or gone since
            told.add(ModelInUse.model_validate_json(await redis.get(key) or ""))
    return tuple(sorted(told, key=str))


def _note(found: _Found, shard: int, rest: str, key: str) -> None:
    found.shards.add(shard)
    if rest.startswith(_QUEUE):
        found.queues.setdefault(shard, set()).add(rest.removeprefix(_QUEUE))
    elif key.startswith(EVENTS.key(shard, tenant="", session="").rstrip(":") + ":"):
        found.events += 1
    elif key.startswith(EMBED_REPLY.key(shard, reply="")):
        found.replies += 1


def _work_streams(shards: Iterable[int], found: _Found) -> list[tuple[Stream, str]]:
    in_shards = [
        pair for number in shards for pair in queues_of(number, tuple(sorted(found.queues.get(number, {"default"}))))
    ]
    return [(INBOUND, INBOUND.key()), *in_shards]


async def _work(redis: Any, stream: Stream, key: str, active_ms: int) -> WorkStream:
    length = await redis.xlen(key)
    groups = await redis.xinfo_groups(key) if await redis.exists(key) else []
    seen = [await _group(redis, stream, key, group, active_ms) for group in groups]
    return WorkStream(stream.name, key, length, stream.group or "", tuple(seen), stream.readers)


async def _group(redis: Any, stream: Stream, key: str, group: dict[str, Any], active_ms: int) -> Group:
    consumers = await redis.xinfo_consumers(key, group["name"])
    return Group(
        name=group["name"],
        expected=group["name"] == stream.group,
        lag=group.get("lag"),
        pending=group["pending"],
        consumers=len(consumers),
        active=sum(1 for consumer in consumers if consumer["idle"] < active_ms),
    )


async def _dead(redis: Any, key: str) -> DeadStream:
    newest = await redis.xrevrange(key, count=NEWEST)
    return DeadStream(key, await redis.xlen(key), tuple(_reason(fields) for _, fields in newest))


def _reason(fields: dict[str, str]) -> str:
    try:
        letter = DeadLetter.model_validate_json(fields.get("data", ""))
    except ValueError:
        return "cannot be read"
    return f"{letter.reason} ({letter.stream} {letter.entry_id})"
