"""FastStream, wrapped once: the settings under which it keeps our promises (docs/decisions/0004).

By itself it creates groups at ``$``, decodes with a copy per message and waits five seconds after an error. Here groups
exist before it reads, batches arrive undecoded, and the connection retries for ever, so that an outage of Redis is a
pause of the read and nothing else.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from faststream.redis.message import FAKE_CONSUMER, RedisBatchStreamMessage
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, ResponseError, TimeoutError

from shared.bus.entry import Entry

BLOCK_MS = 1000
Batch = list[Entry]


class _Stream(StreamSub):
    """FastStream asks for the prefixed copy at every read; without a prefix the original will do."""

    def add_prefix(self, prefix: str) -> "_Stream":
        return super().add_prefix(prefix) if prefix else self


def make_broker(url: str) -> RedisBroker:
    """A broker that only reads; everything is written by scripts."""
    return RedisBroker(  # FastStream's annotations are narrower than what it takes and passes on
        url,
        protocol=2,  # type: ignore[arg-type]
        apply_types=False,
        logger=None,  # type: ignore[arg-type]
        graceful_timeout=0.1,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), -1),
        retry_on_error=[ConnectionError, TimeoutError, BusyLoadingError],
        socket_connect_timeout=2.0,
        socket_timeout=BLOCK_MS / 1000 + 5,
    )


async def _unparsed(message: Any) -> RedisBatchStreamMessage:
    return RedisBatchStreamMessage(
        raw_message=message, body=b"", headers={}, message_id="", correlation_id="", consumer=FAKE_CONSUMER, group=""
    )


async def _undecoded(message: RedisBatchStreamMessage) -> Batch:
    raw = message.raw_message
    stream = raw["channel"]
    ids: list[bytes] = raw["message_ids"]
    return [
        Entry(stream, entry_id.decode(), fields.get(b"data", b""))
        for entry_id, fields in zip(ids, raw["data"], strict=True)
    ]


def subscribe(
    broker: RedisBroker, stream: str, group: str, consumer: str, count: int, handler: Callable[[Batch], Awaitable[None]]
) -> Any:
    """Read fresh entries of a group in batches; the handler's return asks for the next batch. Acknowledges nothing."""
    subscriber = broker.subscriber(
        stream=_Stream(
            stream, group=group, consumer=consumer, batch=True, max_records=count, polling_interval=BLOCK_MS
        ),
        ack_policy=AckPolicy.MANUAL,
        parser=_unparsed,
        decoder=_undecoded,
    )
    subscriber(handler)
    return subscriber


async def ensure_group(redis: Redis, stream: str, group: str) -> None:
    """The group exists from the stream's first entry on, and the stream exists."""
    try:
        await redis.xgroup_create(stream, group, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
