"""Redis is killed and comes back: under ``appendfsync always`` nothing is lost, and consumers go on by themselves."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest

from pentad.contracts.streams import INBOUND
from pentad.shared.errors import OutageError
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.keys import SessionKeys
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store, guarded
from pentad.shared.work.entry import Entry
from tests.integration.work.crew import KEY, consuming, settled
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until


@pytest.fixture
async def durable() -> AsyncIterator[RedisServer]:
    async with RedisServer(aof="always") as server:
        yield server


async def test_consumers_go_on_by_themselves_and_nothing_is_lost(durable: RedisServer) -> None:
    store = Store(durable.url)
    seen = Counter[bytes]()
    accepted: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen[entry.data] += 1

    async def produce() -> None:
        for n in range(400):
            try:
                await store.call("XADD", KEY, "*", "data", n)
                accepted.append(b"%d" % n)
            except OutageError:
                await guarded("ping", lambda: store.call("PING"))

    async with consuming(store, "one", work) as consumer:
        producing = asyncio.create_task(produce())
        await wait_until("half of it", lambda: len(accepted) > 100)
        await asyncio.to_thread(durable.restart)
        await producing
        await wait_until("the rest", lambda: set(accepted) <= set(seen))
        await wait_until("the acknowledgements", lambda: _quiet(store))
        assert consumer.alive()
    await store.close()


async def _quiet(store: Store) -> bool:
    try:
        return await settled(store)
    except OSError:
        return False


async def test_the_ingress_goes_on_by_itself_and_keeps_order(durable: RedisServer) -> None:
    store = Store(durable.url)
    task = asyncio.create_task(Ingress(store, Settings(pentad_lease_s=0.5)).run())
    accepted: list[str] = []
    for n in range(300):
        body = json.dumps({"content": str(n), "session_id": "s1", "message_id": f"m{n}"})
        if n == 150:
            await asyncio.to_thread(durable.restart)
        await guarded("send", partial(store.call, "XADD", INBOUND.key(), "*", "data", body))
        accepted.append(f"m{n}")
    mail = SessionKeys(0, "default", "s1").messages
    await wait_until("all messages", lambda: _has(store, mail, len(accepted)))
    members = await store.call("ZRANGE", mail, 0, -1)
    assert [json.loads(m.split(b" ", 3)[3])["message_id"] for m in members] == accepted
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
    await store.close()


async def _has(store: Store, mail: str, count: int) -> bool:
    return bool(await store.call("ZCARD", mail) == count)
