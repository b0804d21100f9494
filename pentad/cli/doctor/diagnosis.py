"""Read the state of a Redis for someone who has to mend it. Nothing in it is changed."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from redis.exceptions import RedisError, ResponseError

from pentad.cli.doctor.open_calls import SILENT_MS, ToolQueue, open_calls
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.models import ModelHealth
from pentad.contracts.streams import (
    DEAD,
    EMBED_REPLY,
    EVENTS,
    IN_SHARDS,
    INBOUND,
    INBOUND_DEAD,
    MEMORY_REPLY,
    TOOL_CALLS,
    Stream,
    queues_of,
    split_key,
)
from pentad.shared.errors import OutageError
from pentad.shared.inbound.renewal import ahead, exhausted, last_id
from pentad.shared.keys import IN_USE, LOOP_HOLDS, MEMORY_COUNTS, MEMORY_REBUILD, MODEL_HEALTH
from pentad.shared.memory.memory_counts import Damage, damages_in
from pentad.shared.memory.rebuild_progress import RebuildProgress, progress_in
from pentad.shared.presence.announcements import IN_USE_TTL_S, ModelInUse, recent_health, worst
from pentad.shared.presence.loop_holds import LoopHold, held_lately
from pentad.shared.store.refusals import said, text_of
from pentad.shared.store.server import Server, look, refusal_at_start
from pentad.shared.store.wire import Wire, connect

T = TypeVar("T")

ACTIVE_MS = 10_000
"""A consumer that asked for work within this time is alive."""
NEWEST = 3
"""Dead letters whose reasons are shown, of each stream."""
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
class Diagnosis:
    """Everything at once."""

    server: Server
    latency_ms: float
    fsync: str | None
    """The server's setting ``appendfsync``; None when it does not tell."""
    unseen: tuple[tuple[str, str], ...] = ()
    """Commands that the server refused, each with its answer."""
    shards: tuple[int, ...] = ()
    work: tuple[WorkStream, ...] = ()
    dead: tuple[DeadStream, ...] = ()
    calls: tuple[ToolQueue, ...] = ()
    """Queues with open tool calls."""
    event_streams: int = 0
    """Sessions whose events are kept."""
    reply_streams: int = 0
    in_use: tuple[ModelInUse, ...] = ()
    """Models that the running task-runners and embedding services use, each once."""
    health: tuple[ModelHealth, ...] = ()
    """How models do, each where it does worst."""
    holds: tuple[LoopHold, ...] = ()
    """How long event loops were held during the last day, the longest of each service."""
    damages: tuple[Damage, ...] = ()
    """Damage of the memory's stores, as archivers have seen it."""
    rebuild: RebuildProgress | None = None
    """A rebuild of the memory, that goes on or was lately."""
    inbound_full: str | None = None
    """Why the inbound stream takes nothing."""
    inbound_ahead: str | None = None
    """How far its ids are ahead of the clock."""


@dataclass(slots=True)
class _Found:
    """Counts that a scan of the keys has made."""

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
    async with _reading(url, timeout_s) as (redis, wire):
        seen = await _server(wire)
        if refusal_at_start(seen.server) is not None:
            return seen
        unseen: list[tuple[str, str]] = []
        found = _Found()
        await _seen("all keys", _walk(redis, found), unseen)
        numbers = sorted(found.shards | set(range(shards)))
        work = [
            await _seen(key, _work(redis, stream, key, active_ms), unseen)
            for stream, key in _work_streams(numbers, found)
        ]
        queues = [stream.key for stream in work if stream is not None and stream.name == TOOL_CALLS.name]
        calls = await _seen("tool calls", open_calls(redis, queues, min(SILENT_MS, active_ms)), unseen)
        letters = (INBOUND_DEAD.key(), *(DEAD.key(number) for number in numbers))
        dead = [await _seen(key, _dead(redis, key), unseen) for key in letters]
        in_use = await _seen(f"{IN_USE}*", _in_use(redis), unseen)
        health = await _seen(MODEL_HEALTH, _health(redis), unseen)
        holds = await _seen(LOOP_HOLDS, _holds(redis), unseen)
        damages = await _seen(MEMORY_COUNTS, _damages(redis), unseen)
        rebuild = await _seen(MEMORY_REBUILD, _rebuild(redis), unseen)
        full, early = await _seen(INBOUND.key(), _ids(wire), unseen) or (None, None)
    return replace(
        seen,
        unseen=tuple(unseen),
        shards=tuple(numbers),
        work=tuple(stream for stream in work if stream is not None),
        dead=tuple(stream for stream in dead if stream is not None),
        calls=calls or (),
        event_streams=found.events,
        reply_streams=found.replies,
        in_use=in_use or (),
        health=health or (),
        holds=holds or (),
        damages=damages or (),
        rebuild=rebuild,
        inbound_full=full,
        inbound_ahead=early,
    )


async def _seen(what: str, looking: Awaitable[T], unseen: list[tuple[str, str]]) -> T | None:
    """A part of the whole; what the server refuses to show is noted, and the rest is looked at all the same."""
    try:
        return await looking
    except ResponseError as error:
        unseen.append((what, text_of(error)))
        return None


@asynccontextmanager
async def _reading(url: str, timeout_s: float) -> AsyncIterator[tuple[Any, Wire]]:
    redis = connect(url, decode_responses=True, encoding_errors="backslashreplace", socket_timeout=timeout_s)
    wire = Wire(url, timeout_s)
    try:
        yield redis, wire
    except (RedisError, OSError) as error:
        raise OutageError(said(error)) from None
    finally:
        await redis.aclose()
        await wire.close()


async def _server(wire: Wire) -> Diagnosis:
    async def ask(commands: Sequence[Sequence[str]]) -> Sequence[Any]:
        replies = await asyncio.gather(*(wire.ask(*command) for command in commands), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, ResponseError):
                raise reply
        return replies

    await ask([("PING",)])
    began = time.perf_counter()
    await ask([("PING",)])
    latency = (time.perf_counter() - began) * 1000
    server = await look(ask)
    [fsync] = await ask([("CONFIG", "GET", "appendfsync")])
    return Diagnosis(server, latency, fsync[1].decode() if isinstance(fsync, list) and fsync else None)


async def _walk(redis: Any, found: _Found) -> None:
    async for key in redis.scan_iter(match=IN_SHARDS, count=1000, _type="STREAM"):
        if (parts := split_key(key)) is not None:
            _note(found, *parts, key)


async def _ids(wire: Wire) -> tuple[str | None, str | None]:
    """Return why the inbound stream takes no more ids, and how its ids are ahead of the clock; None where well."""
    last, (seconds, _) = await last_id(wire.ask), await wire.ask("TIME")
    full = exhausted(last)
    return full, None if full else ahead(last, int(seconds) * 1000)


async def _in_use(redis: Any) -> tuple[ModelInUse, ...]:
    told = set()
    async for key in redis.scan_iter(match=f"{IN_USE}*", count=1000):
        if await redis.ttl(key) > IN_USE_TTL_S:
            continue
        with suppress(ValueError):  # of a newer version, or gone since
            told.add(ModelInUse.model_validate_json(await redis.get(key) or ""))
    return tuple(sorted(told, key=str))


async def _health(redis: Any) -> tuple[ModelHealth, ...]:
    seconds, micros = await redis.time()
    values = [value.encode() for value in await redis.hvals(MODEL_HEALTH)]
    return tuple(map(worst, recent_health(values, seconds * 1000 + micros // 1000).values()))


async def _holds(redis: Any) -> tuple[LoopHold, ...]:
    seconds, _ = await redis.time()
    return held_lately([value.encode() for value in await redis.hvals(LOOP_HOLDS)], seconds * 1000)


async def _damages(redis: Any) -> tuple[Damage, ...]:
    return tuple(damages_in(await redis.hgetall(MEMORY_COUNTS)))


async def _rebuild(redis: Any) -> RebuildProgress | None:
    return progress_in(await redis.hgetall(MEMORY_REBUILD))


def _note(found: _Found, shard: int, rest: str, key: str) -> None:
    found.shards.add(shard)
    if rest.startswith(_QUEUE):
        found.queues.setdefault(shard, set()).add(rest.removeprefix(_QUEUE))
    elif key.startswith(EVENTS.key(shard, tenant="", session="").rstrip(":") + ":"):
        found.events += 1
    elif key.startswith((EMBED_REPLY.key(shard, reply=""), MEMORY_REPLY.key(shard, reply=""))):
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
