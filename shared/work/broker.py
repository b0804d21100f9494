"""FastStream, wrapped once: the settings under which it keeps our promises (docs/decisions/0004).

By itself it creates groups at ``$``, asks for a fixed number of entries, decodes with a copy per message and waits five
seconds after an error. Here groups exist before it reads, it gets what the consumer can begin (`intake.py`),
batches arrive undecoded, and its client is our own wire, which asks again for ever, so that an outage of Redis is a
pause of the read and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from faststream.redis.configs import RedisConnectionState
from redis.exceptions import ResponseError

from pentad.shared.errors import OutageError
from pentad.shared.store.store import Store, guarded
from pentad.shared.store.wire import Wire, Word
from pentad.shared.work.entry import Entry, data_of
from pentad.shared.work.intake import Intake

_REFUSED_S = 0.2
Batch = list[Entry]


class _Stream(StreamSub):
    """FastStream asks for the prefixed copy at every read; without a prefix the original will do."""

    def add_prefix(self, prefix: str) -> "_Stream":
        return super().add_prefix(prefix) if prefix else self


class _Reader:
    """The client that FastStream's stream subscriber uses, over our own connection; an outage is waited out here."""

    def __init__(self, store: Store, intake: Intake) -> None:
        self._store, self._wire, self._intake = store, Wire(store.url), intake

    async def ping(self) -> bool:
        """FastStream gives a start three seconds; the first read waits for Redis as long as it takes."""
        return True

    async def xgroup_create(self, name: str, groupname: str, id: str, mkstream: bool) -> None:  # noqa: A002
        """Create a group; that it exists is an error with FastStream's words."""
        command = ("XGROUP", "CREATE", name, groupname, id, *(("MKSTREAM",) if mkstream else ()))
        await guarded("reading", self._once, command)

    async def xreadgroup(
        self, groupname: str, consumername: str, streams: Mapping[str, str], count: int, block: int, noack: bool
    ) -> Sequence[Any]:
        """Fresh entries, their fields a flat list. Those of a lost reply are reclaimed like those of a lost worker.

        How many, and how long they are waited for, is the intake's to say.
        """
        assert not noack
        return await self._intake.turn(self._read)

    async def _read(self, *command: Word) -> Any:
        """FastStream ends when a group is gone, as it should; any other refusal it would meet again and again."""
        while True:
            try:
                return await guarded("reading", self._once, command)
            except ResponseError as error:
                if "NOGROUP" in str(error):
                    raise
                self._store.stumbled(f"a read of {command[-2]!s}", error)
            await asyncio.sleep(_REFUSED_S)

    async def _once(self, command: Sequence[Word]) -> Any:
        try:
            return await self._store.read(self._wire, *command)
        except OutageError:
            self._intake.trouble()
            raise

    async def aclose(self) -> None:
        """Close the connection, and with it a read that waits."""
        await self._wire.close()


class _Connection(RedisConnectionState):
    """A connection whose client is our `_Reader`."""

    def __init__(self, store: Store, intake: Intake) -> None:
        super().__init__()
        self._store, self._intake = store, intake

    async def connect(self) -> Any:
        self._client = cast(Any, _Reader(self._store, self._intake))
        self._connected = True
        return self._client


class _Broker(RedisBroker):
    def __init__(self, store: Store, intake: Intake) -> None:
        self._store, self._intake = store, intake
        super().__init__(
            store.url,
            apply_types=False,
            logger=None,  # type: ignore[arg-type]
            graceful_timeout=0.1,
        )

    def _make_connection_state(self, connection_options: dict[str, Any], kwargs: dict[str, Any]) -> _Connection:
        return _Connection(self._store, self._intake)


def make_broker(store: Store, intake: Intake) -> RedisBroker:
    """A broker that only reads; everything is written by scripts."""
    return _Broker(store, intake)


def subscribe(
    broker: RedisBroker, stream: str, group: str, consumer: str, handler: Callable[[Batch], Awaitable[None]]
) -> Any:
    """Read fresh entries of a group in batches; the handler's return asks for the next batch. Acknowledges nothing."""
    subscriber: Any = broker.subscriber(
        stream=_Stream(stream, group=group, consumer=consumer, batch=True), ack_policy=AckPolicy.MANUAL
    )
    subscriber(handler)

    async def read(message: Mapping[str, Any]) -> None:
        stream = message["channel"]
        found = zip(message["message_ids"], message["data"], strict=True)
        await handler([Entry(stream, entry_id.decode(), data_of(fields)) for entry_id, fields in found])

    # Past the pipeline of parsers, middlewares and replies: none of it is ours, and it costs 0.2 ms a batch.
    subscriber.consume_one = read
    return subscriber


async def ensure_group(store: Store, stream: str, group: str) -> None:
    """The group exists from the stream's first entry on, and the stream exists."""
    try:
        await store.call("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
