"""The live system in one document, which is made for all who ask within a second together."""

import asyncio
from time import monotonic

from pentad.contracts.ids import rfc3339
from pentad.contracts.operations import Operations, ServiceState, StreamState, Totals
from pentad.contracts.streams import DEAD, INBOUND, INBOUND_DEAD, Stream, queues_of
from pentad.services.gateway.memory.memories import MemoryLag
from pentad.services.gateway.operator.live_tasks import LiveTasks
from pentad.services.gateway.operator.live_tools import LiveTools
from pentad.shared.keys import PROCESSES, load
from pentad.shared.presence.announcements import memory_wait
from pentad.shared.presence.processes import recent_processes
from pentad.shared.presence.totals import read_totals
from pentad.shared.store.store import Command, Store
from pentad.shared.work.stream_states import stream_states

_FRESH_S = 1.0
"""Seconds for which a document is given to everybody who asks."""
_REST = 10
"""Factor by which a document is given longer than it took to make: a large one takes a tenth of a gateway's time."""
_MAX_STREAMS_READ = 1_000
MAX_STREAMS, MAX_SERVICES = 300, 200
"""Rows of each list."""
_MAX_MEMORY_REASON_CHARS = 300


class LiveSystem:
    """Reads the live system. Raises ``OutageError`` if Redis is unavailable."""

    def __init__(self, store: Store, tasks: LiveTasks, tools: LiveTools, shards: int) -> None:
        self._store, self._tasks, self._tools, self._shards = store, tasks, tools, shards
        self._lag = MemoryLag(store, shards)
        self._document, self._fresh_until = b"", float("-inf")
        self._making: asyncio.Task[bytes] | None = None

    async def document(self) -> bytes:
        """Return the live system as JSON; those who ask at the same time get the same."""
        if self._making is None:
            if monotonic() < self._fresh_until:
                return self._document
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    async def _make(self) -> bytes:
        began = monotonic()
        document = (await self.read()).model_dump_json().encode()
        self._document, ended = document, monotonic()
        self._fresh_until = ended + max(_FRESH_S, _REST * (ended - began))
        return document

    def _made(self, making: "asyncio.Task[bytes]") -> None:
        self._making = None
        if not making.cancelled():
            making.exception()  # whoever waits raises it; perhaps nobody does any more

    async def read(self) -> Operations:
        """Return the live system as it is now."""
        now, left_out = await self._store.clock(), dict[str, int]()
        services = await self._services(now, left_out)
        queues = {queue for each in services for queue in each.queues} | await self._tools.queues(now)
        dead, messages = await self._counts()
        tasks, approvals = await self._tasks.read(now, left_out)
        return Operations(
            at=rfc3339(now),
            streams=await self._streams(sorted(queues | {"default"}), now, left_out),
            services=services,
            models=await self._tools.models(now, left_out),
            tools=await self._tools.tools(now, left_out),
            tasks=tasks,
            approvals=approvals,
            messages=messages,
            dead_letters=dead,
            memory_lag_s=round(await self._lag.seconds(), 3),
            memory_waits=(await memory_wait(self._store) or "")[:_MAX_MEMORY_REASON_CHARS] or None,
            totals=Totals(**await read_totals(self._store)),
            left_out=left_out,
        )

    async def _streams(self, queues: list[str], now: int, left_out: dict[str, int]) -> list[StreamState]:
        """Return the work streams; where there are more than a document holds, those in which something waits first."""
        keys: list[tuple[Stream, str]] = [(INBOUND, INBOUND.key())]
        for shard in range(self._shards):
            keys += queues_of(shard, tuple(queues))
        states = await stream_states(self._store, keys[:_MAX_STREAMS_READ], now)
        if len(keys) > MAX_STREAMS:
            left_out["streams"] = len(keys) - MAX_STREAMS
            told = {id(each) for each in sorted(states, key=_waits, reverse=True)[:MAX_STREAMS]}
            states = [each for each in states if id(each) in told]
        return states

    async def _services(self, now: int, left_out: dict[str, int]) -> list[ServiceState]:
        found = recent_processes(await self._store.call("HGETALL", PROCESSES), now)
        if len(found) > MAX_SERVICES:
            left_out["services"] = len(found) - MAX_SERVICES
        return [
            ServiceState(
                **each.model_dump(exclude={"at", "queues"}),
                name=name,
                seen_at=rfc3339(each.at),
                alive=each.alive(now),
                queues=list(each.queues),
            )
            for name, each in found[:MAX_SERVICES]
        ]

    async def _counts(self) -> tuple[int, int]:
        """Return how many dead letters there are, and how many messages wait in shards."""
        shards = range(self._shards)
        dead: list[Command] = [("XLEN", INBOUND_DEAD.key()), *(("XLEN", DEAD.key(shard)) for shard in shards)]
        waiting: list[Command] = [("HGET", load(shard), "mail") for shard in shards]
        found = await self._store.calls([*dead, *waiting])
        return sum(found[: len(dead)]), sum(int(each or 0) for each in found[len(dead) :])


def _waits(state: StreamState) -> int:
    """Return how many entries wait in a stream for the group that serves it."""
    return state.groups[0].pending + (state.groups[0].lag or 0) if state.groups else state.length
