"""Redis as a stranger to Pentad uses it: messages in by XADD, events out by XRANGE.

async with Bus(url) as bus:
    await bus.send("hello", "s1")
    end = await bus.until("s1", "task_end")
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from tests.support.waiting import PATIENCE_S, wait_until

Event = dict[str, Any]
EPHEMERAL = frozenset({"thinking", "content", "tool_progress"})


class Bus:
    """One client of one Redis with a single shard."""

    def __init__(self, url: str) -> None:
        self.redis: Any = Redis.from_url(url, protocol=2, decode_responses=True)

    async def __aenter__(self) -> "Bus":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.redis.aclose()

    async def send(self, content: str, session: str, **fields: Any) -> str:
        """Publish a message; returns its entry id."""
        message = {"content": content, "session_id": session, **fields}
        return await self.add("pentad:inbound", json.dumps(message))

    async def add(self, stream: str, data: str | bytes) -> str:
        """Append an entry with one field ``data``."""
        entry: str = await self.redis.xadd(stream, {"data": data})
        return entry

    async def events(self, session: str, *kinds: str, tenant: str = "default") -> list[Event]:
        """Return the session's events, of these types or all, each with its entry ``id``."""
        entries = await self.redis.xrange(f"pentad:{{0}}:events:{tenant}:{session}")
        read = [json.loads(fields["data"]) | {"id": entry} for entry, fields in entries]
        return [e for e in read if not kinds or e["type"] in kinds]

    async def until(
        self, session: str, kind: str, count: int = 1, seconds: float = PATIENCE_S, tenant: str = "default"
    ) -> list[Event]:
        """Wait for so many events of a type; returns all of them."""

        async def there() -> list[Event]:
            found = await self.events(session, kind, tenant=tenant)
            return found if len(found) >= count else []

        return await wait_until(f"{count} {kind} in {session}", there, seconds)

    async def until_last(self, sessions: Sequence[str], kind: str, seconds: float) -> None:
        """Wait until the last event of each of many sessions is of this type."""
        missing = list(sessions)

        async def none_missing() -> bool:
            async with self.redis.pipeline(transaction=False) as pipe:
                for session in missing:
                    pipe.xrevrange(f"pentad:{{0}}:events:default:{session}", count=1)
                lasts = await pipe.execute()
            missing[:] = [s for s, last in zip(missing, lasts, strict=True) if not _is(last, kind)]
            return not missing

        await wait_until(f"{kind} to be the last event of {len(sessions)} sessions", none_missing, seconds)

    async def ask_to_embed(self, texts: Sequence[str], reply: str, **fields: Any) -> str:
        """Ask the embedding service; returns the key of the stream that gets its answer."""
        key = f"pentad:{{0}}:embed:reply:{reply}"
        head = {"type": "embed_command", "version": 1, "event_id": f"e-{reply}", "at": "2030-01-01T00:00:00.000Z"}
        whose = {"tenant_id": "default", "session_id": "embedding"}
        await self.add("pentad:{0}:embed", json.dumps(head | whose | {"texts": texts, "reply_to": key} | fields))
        return key

    async def answer(self, key: str, seconds: float = PATIENCE_S) -> Event:
        """The embedding service's answer on this stream."""

        async def there() -> list[Any]:
            found: list[Any] = await self.redis.xrange(key)
            return found

        [(_, fields)] = await wait_until(f"an answer on {key}", there, seconds)
        answer: Event = {"error": None, **json.loads(fields["data"])}
        return answer

    async def letters(self, stream: str) -> list[Event]:
        """The dead letters of a stream."""
        return [json.loads(fields["data"]) for _, fields in await self.redis.xrange(stream)]

    async def until_letters(self, stream: str, count: int, seconds: float = PATIENCE_S) -> list[Event]:
        """Wait for so many dead letters; there may be no more."""

        async def enough() -> list[Event]:
            found = await self.letters(stream)
            return found if len(found) >= count else []

        found = await wait_until(f"{count} dead letters in {stream}", enough, seconds)
        assert len(found) == count, found
        return found

    async def holder(self, stream: str, group: str) -> list[str]:
        """Names of the consumers that hold unacknowledged entries of a work stream."""
        pending = await self.redis.xpending(stream, group)
        return [consumer["name"] for consumer in pending["consumers"] or []]


def durable(events: Sequence[Event]) -> list[Event]:
    """Return the events without deltas and progress."""
    return [e for e in events if e["type"] not in EPHEMERAL]


def twice(events: Sequence[Event], by: Callable[[Event], Any] = lambda e: e["event_id"]) -> list[Any]:
    """Keys of durable events that came more than once."""
    seen: set[Any] = set()
    return [k for k in map(by, durable(events)) if k in seen or seen.add(k)]  # type: ignore[func-returns-value]


def _is(last: list[Any], kind: str) -> bool:
    return bool(last) and json.loads(last[0][1]["data"])["type"] == kind
