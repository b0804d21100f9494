"""Inbound entries reach their sessions once and in order, from one holder at a time."""

from typing import Any

import pytest

from pentad.contracts.streams import INBOUND
from pentad.shared.keys import FIRST_ID, INBOUND_LEASE, dedup, load, session_index
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.broker import ensure_group
from tests.integration.actors.moves import SESSION, Moves


async def lease(store: Store, owner: str, ms: int = 60_000) -> int:
    """The token, 0 while another holds the lease."""
    reply = await store.run("inbound_lease", [INBOUND_LEASE], [owner, ms])
    return int(reply[0]) if reply else 0


async def read(store: Store, owner: str, token: int, start: str = ">", *acks: str) -> list[str] | None:
    args: list[Argument] = [owner, token, 60_000, "router", start, 10, 1 << 20, 1 << 20, FIRST_ID, *acks]
    reply: list[Any] | None = await store.run("inbound_read", [INBOUND_LEASE, INBOUND.key()], args)
    if reply is None:
        return None
    at, entries, more, large = reply
    assert (more, large) == (int(len(entries) == 10), [])
    assert abs(await store.clock() - at) < 60_000, "it says when it read, by the server's clock"
    return [i.decode() for i, _ in entries]


async def ingest(
    store: Store, *entries: tuple[str, str], limit: int = 100, generation: str = "", digest: str = "abc1"
) -> list[str]:
    """``(entry id, message id)`` of one session; the outcomes."""
    keys = [SESSION.wake, load(0)]
    args: list[Argument] = [1000, 1000, limit, generation]
    for entry, message in entries:
        seen = dedup(0, "default", "s1", message)
        keys += (SESSION.header, SESSION.messages, seen, session_index(0, "default"))
        keys += (SESSION.erased, SESSION.erased)
        args += (entry, SESSION.actor, SESSION.tenant, "s1", digest, message)
    waiting, _, *outcomes = await store.run("ingest", keys, args)
    assert waiting == int(await store.call("HGET", load(0), "mail") or 0)
    return [o.decode() for o in outcomes]


async def bodies(store: Store) -> list[str]:
    return [m.decode().split()[-1] for m in await store.call("ZRANGE", SESSION.messages, 0, -1)]


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
    assert await inbound.call("PTTL", INBOUND_LEASE) == -1, "a token that starts again is no fence"


async def test_a_holder_that_was_overtaken_reads_nothing_and_acknowledges_nothing(inbound: Store) -> None:
    old = await lease(inbound, "a")
    await inbound.call("XADD", INBOUND.key(), "1-1", "data", "x")
    assert await read(inbound, "a", old) == ["1-1"]
    await inbound.call("HSET", INBOUND_LEASE, "exp", 0)
    new = await lease(inbound, "b")
    await inbound.call("XADD", INBOUND.key(), "1-2", "data", "x")
    assert await read(inbound, "a", old, ">", "1-1") is None
    assert await read(inbound, "b", new, "0") == ["1-1"], "what the predecessor left comes first"
    assert await read(inbound, "b", new, ">", "1-1") == ["1-2"]
    assert await read(inbound, "b", new, "0") == ["1-2"]


async def test_entries_are_taken_once_and_in_order(store: Store) -> None:
    assert await ingest(store, ("5-1", "a"), ("5-2", "b")) == ["new", "new"]
    assert await ingest(store, ("5-1", "a"), ("5-2", "b"), ("5-10", "c")) == ["old", "old", "new"]
    assert await bodies(store) == ["a", "b", "c"]


@pytest.mark.parametrize(("last", "next_one"), [("9-9", "10-1"), ("9-9", "9-10"), ("999-1", "1000-0")])
async def test_entry_ids_are_compared_as_numbers(store: Store, last: str, next_one: str) -> None:
    assert await ingest(store, (last, "a")) == ["new"]
    assert await ingest(store, (next_one, "b"), (last, "c")) == ["new", "old"]


@pytest.mark.parametrize(
    "ids",
    [
        [f"{1849302938475738112 + n}-0" for n in range(10)],
        [f"5-{(1 << 53) + n}" for n in range(10)],
        ["1-1", "9223372036854775807-3", "18446744073709551615-0", "18446744073709551615-18446744073709551615"],
    ],
    ids=["beyond 2^53", "numbers beyond 2^53", "to the end"],
)
async def test_ids_of_every_size_are_taken_in_stream_order(store: Store, ids: list[str]) -> None:
    """Lua's numbers are exact to 2^53: neighbours beyond it are not repeats of each other."""
    messages = [f"m{n}" for n, _ in enumerate(ids)]
    assert await ingest(store, *zip(ids, messages, strict=True)) == ["new"] * len(ids)
    assert await ingest(store, *zip(ids, messages, strict=True)) == ["old"] * len(ids)
    assert await bodies(store) == messages


async def test_ids_of_another_stream_s_life_do_not_compare(store: Store) -> None:
    """After the inbound stream was replaced its ids begin anew: what is small now is not old."""
    assert await ingest(store, ("18446744073709551615-5", "a")) == ["new"]
    assert await ingest(store, ("7-1", "b"), ("7-2", "a"), generation="next") == ["new", "repeat"]
    assert await ingest(store, ("7-1", "c"), generation="next") == ["old"]


async def test_another_text_under_an_accepted_id_is_no_repeat(store: Store) -> None:
    """Promise: it is refused each time that it is read, until it is set aside; nothing of the session changes."""
    assert await ingest(store, ("5-1", "a")) == ["new"]
    for _ in range(2):
        assert await ingest(store, ("5-2", "a"), digest="abc2") == ["other"]
    assert await ingest(store, ("5-2", "a"), ("5-3", "b")) == ["repeat", "new"]
    assert await bodies(store) == ["a", "b"]


async def test_what_was_erased_is_dropped_whatever_its_id_was_accepted_with(store: Store) -> None:
    """Promise: no dead letter keeps the text of a message whose session was erased after it was sent."""
    await store.call("SET", dedup(0, "default", "s1", "a"), "4-1 abc1")
    await store.call("HSET", SESSION.erased, "entry", "9-9", "generation", "")
    assert await ingest(store, ("5-1", "a"), digest="abc2") == ["old"]


async def test_an_id_that_an_older_version_has_marked_is_a_repeat_whatever_the_text(store: Store) -> None:
    await store.call("SET", dedup(0, "default", "s1", "a"), "4-1")
    assert await ingest(store, ("5-1", "a")) == ["repeat"]


async def test_each_tenants_messages_are_counted(store: Store) -> None:
    await ingest(store, ("5-1", "a"), ("5-2", "b"))
    assert await store.call("HGETALL", load(0)) == [b"mail", b"2", b"tenant:default", b"2"]


async def test_a_lease_of_the_future_is_over(inbound: Store) -> None:
    """Its holder died, and the clock stepped back."""
    await lease(inbound, "dead", 2000)
    await inbound.call("HINCRBY", INBOUND_LEASE, "exp", 60_000)
    assert await lease(inbound, "b", 2000) == 2


async def test_a_token_without_its_owner_reads_nothing(inbound: Store) -> None:
    """A Redis that lost the last take may give its number again, to another router."""
    token = await lease(inbound, "a")
    await inbound.call("HSET", INBOUND_LEASE, "owner", "b")
    assert await read(inbound, "a", token) is None


async def test_a_repeated_message_id_adds_nothing_and_the_first_body_wins(store: Store) -> None:
    assert await ingest(store, ("5-1", "a")) == ["new"]
    assert await ingest(store, ("5-2", "a")) == ["repeat"]
    assert await bodies(store) == ["a"]
    assert await store.call("GET", dedup(0, "default", "s1", "a")) == b"5-1 abc1"


async def test_over_the_limit_it_stops_at_the_first_and_takes_nothing_later(store: Store) -> None:
    assert await ingest(store, ("5-1", "a"), ("5-2", "b"), ("5-3", "c"), limit=2) == ["new", "new"]
    assert await ingest(store, ("5-3", "c"), ("5-4", "d"), limit=2) == []
    await store.call("HINCRBY", load(0), "mail", -1)
    assert await ingest(store, ("5-3", "c"), ("5-4", "d"), limit=2) == ["new"]
    assert await bodies(store) == ["a", "b", "c"]


async def test_everything_of_a_session_has_its_time_to_live(store: Store) -> None:
    await ingest(store, ("5-1", "a"))
    for key in (SESSION.header, SESSION.messages, dedup(0, "default", "s1", "a"), session_index(0, "default")):
        assert await store.call("TTL", key) > 0, key


async def test_a_session_is_woken_once_for_a_batch(moves: Moves) -> None:
    await ingest(moves.store, ("5-1", "a"), ("5-2", "b"))
    assert len(await moves.read("one", SESSION.wake, "router")) == 1
