"""After an outage of Redis those who live keep what they hold: in the outage nobody could beat."""

import asyncio
import time

from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Entry
from tests.integration.work.crew import GROUP, KEY, add, consuming, settled
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

LEASE_S = 1.0


async def test_what_was_held_at_an_outage_is_reclaimed_a_lease_after_its_end() -> None:
    claimed: list[float] = []

    async def work(entry: Entry) -> None:
        claimed.append(time.monotonic())

    async with RedisServer(aof="always") as server:
        store = Store(server.url)
        await ensure_group(store, KEY, GROUP)
        await add(store, "held")
        await store.call("XREADGROUP", "GROUP", GROUP, "holder", "STREAMS", KEY, ">")
        async with consuming(store, "other", work, lease_ms=round(LEASE_S * 1000)):
            await asyncio.to_thread(server.kill9)
            gone = time.monotonic()
            await wait_until("the lease to be over", lambda: time.monotonic() > gone + LEASE_S)
            back = time.monotonic()
            await asyncio.to_thread(server.start)
            await wait_until("the entry", lambda: claimed)
            await wait_until("the acknowledgement", lambda: settled(store))
        await store.close()
    assert claimed[0] - back >= LEASE_S
