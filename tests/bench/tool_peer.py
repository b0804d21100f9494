"""The worker's side of the tool hop, in a process of its own: ``python -m tests.bench.tool_peer raw|bus URL``."""

import sys
from typing import Any

from redis.asyncio import Redis

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import ToolResultEvent
from pentad.contracts.streams import TOOL_CALLS, Stream
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Entry
from tests.bench.common import make_group

RAW_CALLS, RAW_RESULTS = "bench:raw:calls", "bench:raw:results"
CALLS = TOOL_CALLS.key(0, queue="bench")
RESULTS = Stream(
    "bench-results",
    "bench:{shard}:results",
    "Results of bare calls, back to the runner.",
    (ToolResultEvent,),
    ("bench",),
    ("bench",),
    "bench",
    None,
    "consumed",
)


async def raw(url: str) -> None:
    """The floor: read what is there, answer and acknowledge all of it in one pipeline."""
    redis: Any = Redis.from_url(url, protocol=2)
    await make_group(redis, RAW_CALLS, "g")
    print("ready", flush=True)
    while True:
        for _, entries in await redis.xreadgroup("g", "c", {RAW_CALLS: ">"}, count=64, block=1000) or []:
            pipe = redis.pipeline(transaction=False)
            for _, fields in entries:
                pipe.xadd(RAW_RESULTS, fields)
            pipe.xack(RAW_CALLS, "g", *(i for i, _ in entries))
            await pipe.execute()


async def bus(url: str) -> None:
    """Over our bus: each call parsed, its result an event on a stream, acknowledgements batched."""
    store = Store(url)

    async def work(entry: Entry) -> None:
        command = entry.parse(ToolCallCommand)
        await store.call("XADD", RESULTS.key(0), "*", "data", result_of(command).to_json())

    handler = EntryHandler(store, work, 5)
    handler.consumer = Consumer(store, TOOL_CALLS, CALLS, 0, "bench-worker", handler, 256, 2000)
    await handler.consumer.start()
    print("ready", flush=True)
    await handler.beat()


def result_of(command: ToolCallCommand) -> ToolResultEvent:
    """What an echo answers."""
    return ToolResultEvent(
        event_id=f"{command.tool_call_id}.result",
        at=command.at,
        tenant_id=command.tenant_id,
        session_id=command.session_id,
        task_id=command.task_id,
        tool_call_id=command.tool_call_id,
        tool=command.tool,
        result="hello",
        duration_ms=0,
    )


def main() -> None:
    """Serve until killed."""
    import uvloop

    uvloop.run({"raw": raw, "bus": bus}[sys.argv[1]](sys.argv[2]))


if __name__ == "__main__":
    main()
