"""An inbound stream whose ids have run out, or run ahead, begins again: nothing is lost, doubled or reordered."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ResponseError

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import EVENTS, INBOUND, INBOUND_DEAD
from pentad.shared.inbound import ingress as inbound
from pentad.shared.inbound.renewal import IdsWatch, foreign_groups, last_id, renew
from pentad.shared.keys import INBOUND_LEASE, NEW_INBOUND
from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from tests.integration.inbound.test_ingress import LONG, contents, drained, send, start
from tests.support.waiting import PATIENCE_S, wait_until

__all__ = ["start"]

KEY, LAST = INBOUND.key(), (1 << 64) - 1
FAR = 9_999_999_999_999_999
Start = Callable[..., Any]


async def add(store: Store, entry: str, content: str, session: str | None = "s1", **more: Any) -> None:
    """Append a message under an id of its producer's own."""
    body = {"content": content} | ({"session_id": session} if session else {}) | more
    await store.call("XADD", KEY, entry, "data", json.dumps(body))


async def exhaust(store: Store) -> None:
    """Use the last id up, with a message."""
    await add(store, f"{LAST}-{LAST}", "last", "s1")


async def test_an_exhausted_stream_goes_on_behind_what_waited_in_it(store: Store, start: Start) -> None:
    """Some were read by a router that died, some by none; one is unreadable; one names no session."""
    await ensure_group(store, KEY, "router")
    for number in range(4):
        await add(store, f"{FAR}-{number}", f"pending {number}")
    await store.call("XREADGROUP", "GROUP", "router", "router", "COUNT", 4, "STREAMS", KEY, ">")
    await store.call("XACK", KEY, "router", f"{FAR}-0")  # moved by the one that died
    for number in range(4, 7):
        await add(store, f"{FAR}-{number}", f"unread {number}")
    await store.call("XADD", KEY, f"{FAR}-8", "data", "{")
    await add(store, f"{FAR}-9", "of its own session", None)
    await exhaust(store)
    with pytest.raises(ResponseError, match="exhausted"):
        await send(store, {"content": "x", "session_id": "s1"})
    assert await renew(store) == 9
    await send(store, {"content": "next", "session_id": "s1"})
    start()
    await wait_until("everything to be moved", lambda: drained(store))
    waited = ["pending 1", "pending 2", "pending 3", "unread 4", "unread 5", "unread 6", "last"]
    assert await contents(store, "s1") == [*waited, "next"]
    assert await contents(store, f"s-{FAR}-9") == ["of its own session"], "under the name that its sender knows"
    ((_, fields),) = await store.call("XRANGE", INBOUND_DEAD.key(), "-", "+")
    assert DeadLetter.model_validate_json(fields[1]).entry_id == f"{FAR}-8"
    assert int((await last_id(store.call)).split("-")[0]) <= await store.clock()
    assert await store.call("EXISTS", NEW_INBOUND) == 0


async def test_a_session_that_has_taken_the_largest_id_takes_what_comes_after_the_renewal(
    store: Store, start: Start
) -> None:
    start()
    await exhaust(store)
    await wait_until("the last", lambda: drained(store))
    assert await renew(store) in (0, 1), "what is moved and not acknowledged yet goes over and is dropped there"
    await send(store, *({"content": str(n), "session_id": "s1"} for n in range(3)))
    await wait_until("everything to be moved", lambda: drained(store))
    assert await contents(store, "s1") == ["last", "0", "1", "2"]


async def test_renewed_again_and_again_under_a_running_ingress_nothing_is_lost_doubled_or_reordered(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "_BATCH", 7)
    start()
    start()
    for burst in range(6):
        await send(store, *({"content": f"{burst} {n}", "session_id": f"s{n % 3}"} for n in range(60)))
        await renew(store)
        await asyncio.sleep(0.02 * burst)
    await wait_until("everything to be moved", lambda: drained(store))
    for session in range(3):
        expected = [f"{burst} {n}" for burst in range(6) for n in range(60) if n % 3 == session]
        assert await contents(store, f"s{session}") == expected


async def test_a_holder_of_before_moves_nothing_twice_when_it_wakes_up_late(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read its batch before the renewal, and moves it after its successor has."""
    late = start(LONG)
    reached, go, moved = asyncio.Event(), asyncio.Event(), asyncio.Event()
    real = late.ingress._ingest

    async def held(shard: int, batch: Any) -> int:
        reached.set()
        await go.wait()
        taken = int(await real(shard, batch))
        moved.set()
        return taken

    monkeypatch.setattr(late.ingress, "_ingest", held)
    await send(store, *({"content": str(n), "session_id": "s1"} for n in range(3)))
    await asyncio.wait_for(reached.wait(), PATIENCE_S)
    assert await renew(store) == 3
    start()
    await send(store, {"content": "3", "session_id": "s1"})
    await wait_until("everything to be moved", lambda: drained(store))
    go.set()
    await asyncio.wait_for(moved.wait(), PATIENCE_S)
    await send(store, {"content": "4", "session_id": "s1"})
    await wait_until("the next one too", lambda: drained(store))
    assert await contents(store, "s1") == ["0", "1", "2", "3", "4"]


async def test_an_unreadable_entry_is_set_aside_once_whatever_its_id(store: Store, start: Start) -> None:
    """The dead letters take ids of their own: one with a large id kept out all later ones with smaller ids."""
    start()
    await store.call("XADD", KEY, f"{FAR}-1", "data", '{"content":"","session_id":"s1"}')
    await wait_until("the first", lambda: store.call("XLEN", INBOUND_DEAD.key()))
    await renew(store)
    await store.call("XADD", KEY, "*", "data", '{"content":"","session_id":"s1"}')

    async def both() -> bool:
        return int(await store.call("XLEN", INBOUND_DEAD.key())) == 2

    await wait_until("the second", both)
    assert await store.call("XLEN", EVENTS.key(0, tenant="default", session="s1")) == 2


async def test_what_others_wrote_beside_the_message_goes_over_and_their_groups_are_named(store: Store) -> None:
    await ensure_group(store, KEY, "router")
    await store.call("XGROUP", "CREATE", KEY, "audit", "$")
    words = [word for number in range(6_000) for word in (f"f{number}", "x")]
    await store.call("XADD", KEY, f"{FAR}-1", *words, "data", '{"content":"hi","session_id":"s1"}')
    await store.call("XADD", KEY, f"{FAR}-2", "data", "{}", "colour", "red")
    assert await foreign_groups(store) == ["audit"]
    assert await renew(store) == 2
    assert await renew(store) == 2, "again, and the first ids stay"
    first, second = await store.call("XRANGE", KEY, "-", "+")
    assert first[1][-2:] == [b"first_id", f"{FAR}-1".encode()]
    assert b'{"content":"hi","session_id":"s1"}' in first[1]
    assert second[1] == [b"data", b"{}", b"colour", b"red", b"first_id", f"{FAR}-2".encode()]
    assert await foreign_groups(store) == []


async def test_without_a_stream_there_is_nothing_to_renew(store: Store) -> None:
    assert await renew(store) is None
    assert await store.call("EXISTS", KEY, INBOUND_LEASE) == 0


async def test_ids_are_watched(store: Store) -> None:
    watch = IdsWatch(store)
    await watch.look()
    assert (watch.full, watch.early) == (None, None)
    await send(store, {"content": "x", "session_id": "s1"})
    await watch.look()
    assert (watch.full, watch.early) == (None, None)
    await add(store, f"{await store.clock() + 86_400_000 * 3}-0", "x")
    await watch.look()
    assert watch.full is None
    assert "3 days ahead of the clock" in (watch.early or "")
    await exhaust(store)
    await watch.look()
    assert (watch.early, "no entry ids left" in (watch.full or "")) == (None, True)
    await renew(store)
    await watch.look()
    assert (watch.full, watch.early) == (None, None)
