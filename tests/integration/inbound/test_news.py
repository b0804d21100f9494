"""The ingress's sleep: it ends with the first entry, and holds up nothing else of its store."""

import asyncio
import gc

import pytest

from pentad.contracts.streams import INBOUND
from pentad.shared.errors import OutageError
from pentad.shared.inbound.ingress import NextEntry
from pentad.shared.store.store import Store
from tests.support.waiting import PATIENCE_S, wait_until

KEY = INBOUND.key()


async def test_who_waits_for_news_holds_nobody_up_and_leaves_with_its_store(store: Store, server_url: str) -> None:
    before = await _clients(store)
    waiter = Store(server_url)
    waiting = waiter.listen(KEY, "0-0", 9000)
    await wait_until("the wait", lambda: _clients(store, b"cmd=xread"))
    assert await asyncio.wait_for(waiter.call("PING"), PATIENCE_S) == b"PONG"
    assert not waiting.done()
    await store.call("XADD", KEY, "*", "data", "{}")
    await asyncio.wait_for(waiter.heard(waiting, KEY), PATIENCE_S)
    await asyncio.wait_for(waiter.heard(waiter.listen(KEY, "0-0", 9000), KEY), PATIENCE_S)  # there is some already
    await waiter.close()
    await wait_until("its connections to end", lambda: _back_to(store, before))


async def test_what_is_heard_is_the_first_entry_behind_or_nothing(store: Store) -> None:
    news = NextEntry(store, KEY)
    news.ask("0-0", 10)
    assert await news.hear() is None
    await store.call("XADD", KEY, "1-1", "data", "a")
    await store.call("XADD", KEY, "2-1", "data", "b", "more", "c")
    news.ask("1-1", 9000)
    assert await asyncio.wait_for(news.hear(), PATIENCE_S) == ("2-1", {b"data": b"b", b"more": b"c"})


async def test_a_question_that_nobody_has_heard_yet_is_not_asked_again(store: Store) -> None:
    news = NextEntry(store, KEY)
    for after in ("0-0", "7-0", "7-0"):
        news.ask(after, 9000)
    await store.call("XADD", KEY, "1-1", "data", "a")
    assert await asyncio.wait_for(news.hear(), PATIENCE_S) == ("1-1", {b"data": b"a"})
    assert await news.hear() is None  # at once: nothing is asked


@pytest.mark.parametrize("lost", [False, True], ids=["waiting", "lost"])
async def test_a_question_that_is_dropped_is_nobodys_trouble(
    store: Store, lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    news = NextEntry(store, KEY)
    news.ask("0-0", 9000)
    await wait_until("the wait", lambda: _clients(store, b"cmd=xread"))
    if lost:
        await store.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await wait_until("the loss", lambda: not store._blocking_wire.connected)
    news.drop()
    del news
    gc.collect()
    await store.call("PING")
    assert caplog.records == []


async def test_the_loss_of_the_connection_is_heard_as_an_outage(store: Store) -> None:
    news = NextEntry(store, KEY)
    news.ask("0-0", 9000)
    await wait_until("the wait", lambda: _clients(store, b"cmd=xread"))
    await store.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(OutageError):
        await asyncio.wait_for(news.hear(), PATIENCE_S)


async def test_a_refusal_names_the_stream(store: Store) -> None:
    await store.call("ACL", "SETUSER", "default", "-xread")
    try:
        news = NextEntry(store, KEY)
        news.ask("0-0", 9000)
        with pytest.raises(OutageError, match=f"XREAD {KEY}"):
            await asyncio.wait_for(news.hear(), PATIENCE_S)
    finally:
        await store.call("ACL", "SETUSER", "default", "+xread")


async def _clients(store: Store, what: bytes = b"flags=") -> int:
    listed: bytes = await store.call("CLIENT", "LIST")
    return listed.count(what)


async def _back_to(store: Store, clients: int) -> bool:
    return await _clients(store) <= clients
