"""The ingress's sleep: it ends with the first entry, and holds up nothing else of its store."""

import asyncio

from contracts.streams import INBOUND
from shared.state.store import Store
from tests.support.waiting import wait_until

KEY = INBOUND.key()


async def test_who_waits_for_news_holds_nobody_up_and_leaves_with_its_store(store: Store, server_url: str) -> None:
    before = await _clients(store)
    waiter = Store(server_url)
    waiting = asyncio.create_task(waiter.news(KEY, "0-0", 9000))
    await wait_until("the wait", lambda: _clients(store, b"cmd=xread"))
    assert await asyncio.wait_for(waiter.call("PING"), 5) == b"PONG"
    assert not waiting.done()
    await store.call("XADD", KEY, "*", "data", "{}")
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(waiter.news(KEY, "0-0", 9000), 5)  # there is some already
    await waiter.close()
    await wait_until("its connections to end", lambda: _back_to(store, before))


async def _clients(store: Store, what: bytes = b"flags=") -> int:
    listed: bytes = await store.call("CLIENT", "LIST")
    return listed.count(what)


async def _back_to(store: Store, clients: int) -> bool:
    return await _clients(store) <= clients
