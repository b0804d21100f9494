"""What counts as waiting work, for back-pressure."""

import json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.shared.inbound.backlog import Backlog
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.inbound.renewal import renew
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

KEY = INBOUND.key()


async def fill(store: Store, count: int) -> list[bytes]:
    """Append messages that nobody has read."""
    pipe = store.redis.pipeline(transaction=False)
    for number in range(count):
        pipe.xadd(KEY, {"data": json.dumps({"content": "x", "session_id": f"s{number}"})})
    found: list[bytes] = await pipe.execute()
    return found


async def waiting(store: Store) -> int:
    """What a gateway that has just begun sees."""
    return await Backlog(store).all(0)


async def test_what_another_group_has_not_read_is_no_work_of_ours(store: Store) -> None:
    """Somebody looked once, with a group that nobody serves: that is no reason to refuse messages for ever."""
    await fill(store, 1)
    await store.call("XGROUP", "CREATE", KEY, "router", "0")
    await store.call("XGROUP", "CREATE", KEY, "audit", "0")
    await fill(store, 30)
    await store.call("XREADGROUP", "GROUP", "router", "router", "STREAMS", KEY, ">")
    assert await waiting(store) == 0
    await fill(store, 3)
    assert await waiting(store) == 3


async def test_a_lag_that_redis_has_lost_count_of_is_counted(store: Store) -> None:
    """After an XDEL of unread entries the lag is null: the length, with all that was read, is no answer."""
    await fill(store, 300)
    await store.call("XGROUP", "CREATE", KEY, "router", "0")
    await store.call("XREADGROUP", "GROUP", "router", "router", "COUNT", 50, "STREAMS", KEY, ">")
    ids = [entry.decode() for entry, _ in await store.call("XRANGE", KEY, "-", "+")]
    await store.call("XDEL", KEY, ids[-2])
    assert await waiting(store) == 249
    await store.call("XREADGROUP", "GROUP", "router", "router", "COUNT", 249, "STREAMS", KEY, ">")
    assert await waiting(store) == 0


async def test_the_counting_has_an_end(store: Store) -> None:
    ids = await fill(store, 250)
    assert await store.run("lag", [KEY], ["0-0", 150]) == 200, "whole pages of 100"
    assert await store.run("lag", [KEY], [ids[-1], 150]) == 0


async def test_before_a_router_has_begun_all_of_it_waits(store: Store) -> None:
    assert await waiting(store) == 0
    await fill(store, 7)
    await store.call("XGROUP", "CREATE", KEY, "audit", "$")
    assert await waiting(store) == 7


async def test_of_a_stream_that_has_begun_again_nothing_of_before_is_counted(store: Store) -> None:
    """Its entries had larger ids than any that will be read: they would be a tenant's own for ever."""
    inbox = Inbox(store, 100, 100)
    await store.call("XADD", KEY, "9999999999999-0", "data", "{}")
    await store.call("XGROUP", "CREATE", KEY, "router", "9999999999999-0")
    await inbox.append(InboundMessage(content="hi", session_id="s1", tenant_id="acme"))
    assert await inbox.backlog.of(0, "acme") == 1
    await renew(store)
    await store.call("XREADGROUP", "GROUP", "router", "router", "STREAMS", KEY, ">")

    async def none() -> bool:
        return await inbox.backlog.all(0) == 0

    await wait_until("the count of now", none)
    assert not inbox.backlog._own
