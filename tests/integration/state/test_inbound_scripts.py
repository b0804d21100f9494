"""Inbound entries reach their sessions once and in order, from one holder at a time."""

from typing import Any

import pytest

from contracts.streams import INBOUND
from shared.bus.broker import ensure_group
from shared.state.keys import INBOUND_LEASE, dedup, load, session_index
from shared.state.store import Argument, Store
from tests.integration.state.moves import SESSION, Moves


async def lease(store: Store, owner: str, ms: int = 60_000) -> int:
    token: int = await store.run("inbound_lease", [INBOUND_LEASE], [owner, ms])
    return token


async def read(store: Store, token: int, start: str = ">", *acks: str) -> list[str] | None:
    args: list[Argument] = [token, 60_000, "router", start, 10, *acks]
    reply: list[Any] | None = await store.run("inbound_read", [INBOUND_LEASE, INBOUND.key()], args)
    return None if reply is None else [i.decode() for i, _ in reply]


async def ingest(store: Store, *entries: tuple[str, str], limit: int = 100) -> list[str]:
    """``(entry id, message id)`` of one session; the outcomes."""
    keys, args = [SESSION.wake, load(0)], [1000, 1000, limit]
    for entry, message in entries:
        ms, seq = entry.split("-")
        seen = dedup(0, "default", "s1", message)
        keys += (SESSION.header, SESSION.mail, seen, session_index(0, "default"))
        args += (ms, seq, SESSION.actor, "s1", ms, message)  # type: ignore[arg-type]
    waiting, *outcomes = await store.run("ingest", keys, args)
    assert waiting == int(await store.call("HGET", load(0), "mail"))
    return [o.decode() for o in outcomes]


async def bodies(store: Store) -> list[str]:
    return [m.decode().split()[-1] for m in await store.call("ZRANGE", SESSION.mail, 0, -1)]


@pytest.fixture
async def inbound(store: Store) -> Store:
    await ensure_group(store, INBOUND.key(), "router")
    return store


async def test_one_holder_at_a_time_and_a_token_that_only_grows(inbound: Store) -> None:
    first = await lease(inbound, "a")
    assert (await lease(inbound, "a"), await lease(inbound, "b")) == (first, 0)
    await inbound.run("inbound_release", [INBOUND_LEASE], ["b"])
    assert await lease(inbound, "b") == 0, "only the holder gives it back"
    await inbound.run("inbound_release", [INBOUND_LEASE], ["a"])
    assert await lease(inbound, "b") == first + 1
    assert await inbound.call("PTTL", INBOUND_LEASE) > 0


async def test_a_holder_that_was_overtaken_reads_nothing_and_acknowledges_nothing(inbound: Store) -> None:
    old = await lease(inbound, "a")
    await inbound.call("XADD", INBOUND.key(), "1-1", "data", "x")
    assert await read(inbound, old) == ["1-1"]
    await inbound.call("HSET", INBOUND_LEASE, "exp", 0)
    new = await lease(inbound, "b")
    await inbound.call("XADD", INBOUND.key(), "1-2", "data", "x")
    assert await read(inbound, old, ">", "1-1") is None
    assert await read(inbound, new, "0") == ["1-1"], "what the predecessor left comes first"
    assert await read(inbound, new, ">", "1-1") == ["1-2"]
    assert await read(inbound, new, "0") == ["1-2"]


async def test_entries_are_taken_once_and_in_order(store: Store) -> None:
    assert await ingest(store, ("5-1", "a"), ("5-2", "b")) == ["new", "new"]
    assert await ingest(store, ("5-1", "a"), ("5-2", "b"), ("5-10", "c")) == ["old", "old", "new"]
    assert await bodies(store) == ["a", "b", "c"]


@pytest.mark.parametrize(("last", "next_one"), [("9-9", "10-1"), ("9-9", "9-10"), ("999-1", "1000-0")])
async def test_entry_ids_are_compared_as_numbers(store: Store, last: str, next_one: str) -> None:
    assert await ingest(store, (last, "a")) == ["new"]
    assert await ingest(store, (next_one, "b"), (last, "c")) == ["new", "old"]


async def test_a_repeated_message_id_adds_nothing_and_the_first_body_wins(store: Store) -> None:
    assert await ingest(store, ("5-1", "a")) == ["new"]
    assert await ingest(store, ("5-2", "a")) == ["repeat"]
    assert await bodies(store) == ["a"]
    assert await store.call("GET", dedup(0, "default", "s1", "a")) == b"5-1"


async def test_over_the_limit_it_stops_at_the_first_and_takes_nothing_later(store: Store) -> None:
    assert await ingest(store, ("5-1", "a"), ("5-2", "b"), ("5-3", "c"), limit=2) == ["new", "new"]
    assert await ingest(store, ("5-3", "c"), ("5-4", "d"), limit=2) == []
    await store.call("HINCRBY", load(0), "mail", -1)
    assert await ingest(store, ("5-3", "c"), ("5-4", "d"), limit=2) == ["new"]
    assert await bodies(store) == ["a", "b", "c"]


async def test_everything_of_a_session_has_its_time_to_live(store: Store) -> None:
    await ingest(store, ("5-1", "a"))
    for key in (SESSION.header, SESSION.mail, dedup(0, "default", "s1", "a"), session_index(0, "default")):
        assert await store.call("TTL", key) > 0, key


async def test_a_session_is_woken_once_for_a_batch(moves: Moves) -> None:
    await ingest(moves.store, ("5-1", "a"), ("5-2", "b"))
    assert len(await moves.read("one", SESSION.wake, "router")) == 1
