"""An entry that is larger than any message is set aside without being read whole, and holds nobody up."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import INBOUND, INBOUND_DEAD
from pentad.shared.inbound import ingress as inbound
from pentad.shared.inbound.arrival import MOST_ENTRY_BYTES
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.inbound.renewal import last_id, renew
from pentad.shared.settings import Settings
from pentad.shared.store.redis_replies import RedisReplies
from pentad.shared.store.store import Store
from tests.integration.inbound.test_ingress import contents, drained, send
from tests.support.processes.running import beside
from tests.support.waiting import PATIENCE_S, wait_until

KEY = INBOUND.key()
LARGE = 20 << 20
SETTINGS = Settings(pentad_lease_s=600)
LITTLE = 2 << 20


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all that connections of this process are sent from now on."""
    sizes: list[int] = []
    take = RedisReplies.data_received

    def count(self: RedisReplies, data: bytes) -> None:
        sizes.append(len(data))
        take(self, data)

    monkeypatch.setattr(RedisReplies, "data_received", count)
    return sizes


@pytest.fixture
async def own(server_url: str) -> AsyncIterator[Store]:
    """A router's own connections."""
    store = Store(server_url)
    yield store
    await store.close()


async def letters(store: Store, count: int = 1) -> list[DeadLetter]:
    async def enough() -> list[DeadLetter]:
        found = await store.call("XRANGE", INBOUND_DEAD.key(), "-", "+")
        return [DeadLetter.model_validate_json(fields[1]) for _, fields in found] if len(found) >= count else []

    return await wait_until(f"{count} dead letters", enough)


async def test_a_large_entry_is_set_aside_with_its_size_and_digest_and_those_behind_it_go_on(
    store: Store, own: Store, received: list[int]
) -> None:
    body = json.dumps({"content": "x" * LARGE, "session_id": "s1"})
    await send(store, {"content": "before", "session_id": "s1"}, body, {"content": "behind", "session_id": "s1"})
    received.clear()
    async with beside(Ingress(own, SETTINGS).run()):
        await wait_until("everything to be moved", lambda: drained(store))
        [letter] = await letters(store)
    assert await contents(store, "s1") == ["before", "behind"]
    digest = hashlib.sha1(body.encode()[: 1 << 20], usedforsecurity=False).hexdigest()
    assert f"the entry has {len(body) + len('data')} bytes, and {MOST_ENTRY_BYTES} are read at most" in letter.reason
    assert digest in letter.reason
    assert (letter.clipped, letter.body) == (True, {"data": body[:1024]})
    assert sum(received) < LITTLE, "no process but the server has it whole"


async def test_a_large_entry_that_comes_while_the_ingress_sleeps_is_not_listened_to(
    store: Store, own: Store, received: list[int]
) -> None:
    """What ends the sleep is the first entry itself: it is cut off when it does not end soon."""
    async with beside(Ingress(own, SETTINGS).run()):
        for round_ in range(3):
            await send(store, {"content": f"{round_} before", "session_id": "s1"})
            await wait_until("it to be moved", lambda: drained(store))
            received.clear()
            await send(store, "x" * LARGE)
            await letters(store, round_ + 1)
            await wait_until("it to be acknowledged", lambda: drained(store))
            assert sum(received) < LITTLE
        await send(store, {"content": "behind", "session_id": "s1"})
        await wait_until("everything to be moved", lambda: drained(store))
    assert await contents(store, "s1") == ["0 before", "1 before", "2 before", "behind"]


async def test_a_message_that_is_longer_than_what_is_listened_to_arrives(store: Store, own: Store) -> None:
    metadata = {f"k{n}": "ä" * 240 for n in range(64)}
    async with beside(Ingress(own, SETTINGS).run()):
        await send(store, {"content": "short", "session_id": "s1"})
        await wait_until("it to be moved", lambda: drained(store))
        longest = {"content": "\U0001f600" * 65_536, "session_id": "s1", "metadata": metadata}
        await send(store, longest)
        await wait_until("both", lambda: _count(store, 2))
    assert await contents(store, "s1") == ["short", longest["content"]]


async def _count(store: Store, count: int) -> bool:
    return len(await contents(store, "s1")) == count


async def test_many_that_are_just_small_enough_are_read_in_pieces(
    store: Store, own: Store, received: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a router takes at once is bounded in bytes, however many wait; they are moved in order all the same."""
    monkeypatch.setattr(inbound, "_READ_BYTES", 1 << 20)
    reads: list[int] = []
    read = Ingress._read

    async def count(self: Ingress, *args: object) -> object:
        before = sum(received)
        found = await read(self, *args)  # type: ignore[arg-type]
        reads.append(sum(received) - before)
        return found

    monkeypatch.setattr(Ingress, "_read", count)
    long = "é" * 43_000  # six bytes each, as it is sent
    await send(store, *({"session_id": "s1", "content": f"{n} {long}"} for n in range(40)))
    async with beside(Ingress(own, SETTINGS).run()):
        await wait_until("everything to be moved", lambda: drained(store))
    assert [content.split()[0] for content in await contents(store, "s1")] == [str(n) for n in range(40)]
    assert len([size for size in reads if size > 1 << 19]) >= 8
    assert max(reads) < LITTLE


async def test_many_fields_are_cut_and_what_a_replaced_stream_has_noted_is_kept(store: Store, own: Store) -> None:
    """The producer was told the first id of its entry, and finds the letter by it."""
    fields = {f"field {n}": "z" * 1000 for n in range(200)}
    entry = await store.redis.xadd(KEY, {**fields, "data": "x" * LARGE})
    await store.redis.xgroup_create(KEY, "router", "0")
    assert await renew(store) == 1
    async with beside(Ingress(own, SETTINGS).run()):
        [letter] = await letters(store)
    assert letter.entry_id == entry.decode()
    assert len(letter.to_json()) < 40_000
    assert letter.body["data"] == "x" * 1024


async def test_who_asks_for_the_last_id_gets_the_id_alone(store: Store, received: list[int]) -> None:
    """The gateway asks every five seconds, and at each erasure: the server's own answer holds two entries whole."""
    assert await last_id(store.call) == "0-0"
    [entry] = await send(store, "x" * LARGE)
    received.clear()
    assert await last_id(store.call) == entry
    assert await store.run("last_id", [KEY], []) == [entry.encode(), entry.encode()]
    assert sum(received) < 4096


async def test_a_successor_meets_a_large_entry_that_is_pending(store: Store, own: Store, server_url: str) -> None:
    """A router that was killed after its read leaves it pending: whoever comes next sets it aside."""
    await send(store, "x" * LARGE, {"content": "behind", "session_id": "s1"})
    await store.redis.xgroup_create(KEY, "router", "0")
    await store.redis.xreadgroup("router", "router", {KEY: ">"}, count=2)
    async with asyncio.timeout(PATIENCE_S), beside(Ingress(own, SETTINGS).run()):
        await letters(store)
        await wait_until("everything to be moved", lambda: drained(store))
    assert await contents(store, "s1") == ["behind"]
