"""Entries reach one handler whether they are fresh or left behind, and none is forgotten, doubled or read too early."""

import asyncio
from collections import Counter

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work import consumer
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Entry
from tests.integration.work.crew import GROUP, KEY, add, consuming, pending, settled
from tests.support.waiting import wait_until


async def test_entries_from_before_the_group_existed_are_read(store: Store) -> None:
    await add(store, "early")
    seen: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen.append(entry.data)

    async with consuming(store, "one", work):
        await add(store, "late")
        await wait_until("both entries", lambda: len(seen) == 2)
        assert seen == [b"early", b"late"]
        await wait_until("the acknowledgements", lambda: settled(store))


async def test_what_a_silent_worker_left_comes_to_the_same_handler_marked(store: Store) -> None:
    await ensure_group(store, KEY, GROUP)
    (entry,) = await add(store, "left")
    await store.call("XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", KEY, ">")
    seen: list[Entry] = []

    async def work(entry: Entry) -> None:
        seen.append(entry)

    async with consuming(store, "one", work):
        await wait_until("the entry", lambda: seen)
        assert seen == [Entry(KEY, entry, b"left", redelivered=True)]
        await wait_until("the acknowledgement", lambda: settled(store))


async def test_what_another_holds_is_taken_over_only_once_it_has_been_idle_for_the_lease(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "pentad")
    monkeypatch.setattr(consumer, "_say", ThrottledLog(consumer.log))  # one that has said nothing yet
    await ensure_group(store, KEY, GROUP)
    alive, *silent = await add(store, "alive", "silent", "silent too")
    await store.call("XREADGROUP", "GROUP", GROUP, "other", "STREAMS", KEY, ">")
    seen: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen.append(entry.data)

    async def idle(entry: str, ms: int) -> None:
        await store.call("XCLAIM", KEY, GROUP, "other", 0, entry, "IDLE", ms, "JUSTID")

    await idle(silent[0], 3_600_000)
    async with consuming(store, "one", work, lease_ms=600_000):
        await wait_until("what was silent", lambda: seen)
        await idle(silent[1], 3_600_000)  # the one that lives comes before it: it has been looked at, and left
        await wait_until("what fell silent later", lambda: len(seen) > 1)
        assert seen == [b"silent", b"silent too"]
        assert [entry.decode() for entry, *_ in await _pending_of(store, "other")] == [alive]
    assert f"entry {silent[0]} is taken over from a worker that fell silent" in caplog.text


async def _pending_of(store: Store, consumer: str) -> list[list[bytes]]:
    held: list[list[bytes]] = await store.call("XPENDING", KEY, GROUP, "-", "+", 10, consumer)
    return held


async def test_a_busy_consumer_holds_no_more_than_its_slots_and_one_small_batch(store: Store) -> None:
    go, running = asyncio.Event(), Counter[str]()

    async def work(entry: Entry) -> None:
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        await go.wait()
        running["now"] -= 1

    await add(store, *map(str, range(200)))
    async with consuming(store, "one", work, slots=4, lease_ms=600_000):
        await wait_until("four running", lambda: running["now"] == 4)
        assert await pending(store) <= 8
        go.set()
        await wait_until("the rest", lambda: settled(store))
    assert running["most"] == 4


async def test_a_group_that_vanished_is_made_again_and_reading_goes_on(store: Store) -> None:
    seen: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen.append(entry.data)

    async with consuming(store, "one", work) as consumer:
        await add(store, "a")
        await wait_until("the first", lambda: seen == [b"a"])
        await store.call("FLUSHALL")
        await add(store, "b")
        await wait_until("the second", lambda: b"b" in seen)
        assert consumer.alive()


async def test_poison_is_set_aside_with_its_reason_and_its_entry(store: Store) -> None:
    async def work(entry: Entry) -> None:
        raise PoisonError("not for us")

    async with consuming(store, "one", work):
        (entry,) = await add(store, "\x00 odd")
        await wait_until("the dead letter", lambda: store.call("XLEN", DEAD.key(0)))
        ((_, fields),) = await store.call("XRANGE", DEAD.key(0), "-", "+")
        letter = DeadLetter.model_validate_json(fields[1])
        assert (letter.stream, letter.entry_id, letter.reason) == (KEY, entry, "not for us")
        assert letter.body == {"data": "\x00 odd"}
        assert await settled(store)


@pytest.mark.parametrize(
    ("data", "chain"),
    [
        (b'{"event_id":"e","correlation_id":"m","causation_id":"step-1"}', ["m", "step-1", "e"]),
        (b'{"event_id":7,"causation_id":""}', []),
        (b"[1]", []),
        (b"\xff", []),
    ],
)
async def test_a_dead_letter_says_what_led_to_it_as_far_as_it_can_be_read(
    store: Store, data: bytes, chain: list[str]
) -> None:
    async def refuse(_: Entry) -> None:
        raise PoisonError("not for us")

    async with consuming(store, "a", refuse):
        await store.call("XADD", KEY, "*", "data", data)
        await wait_until("the dead letter", lambda: store.call("XLEN", DEAD.key(0)))
    ((_, fields),) = await store.call("XRANGE", DEAD.key(0), "-", "+")
    assert [link.id for link in DeadLetter.model_validate_json(fields[1]).chain] == chain


async def test_an_outage_is_waited_for_and_the_entry_is_handled_again(store: Store) -> None:
    tries: list[bool] = []

    async def work(entry: Entry) -> None:
        tries.append(entry.redelivered)
        if len(tries) < 3:
            raise OutageError("away")

    async with consuming(store, "one", work, lease_ms=600_000):
        await add(store, "x")
        await wait_until("the third try", lambda: len(tries) == 3)
        await wait_until("the acknowledgement", lambda: settled(store))
    assert await store.call("EXISTS", DEAD.key(0)) == 0


async def test_an_error_leaves_the_entry_to_be_reclaimed_and_stops_nothing(store: Store) -> None:
    tries = Counter[bytes]()

    async def work(entry: Entry) -> None:
        tries[entry.data] += 1
        if entry.data == b"bad" and tries[b"bad"] == 1:
            raise RuntimeError("once")

    async with consuming(store, "one", work):
        await add(store, "bad", "good")
        await wait_until("the second try", lambda: tries[b"bad"] == 2)
        await wait_until("the acknowledgement", lambda: settled(store))
    assert tries[b"good"] == 1


async def test_what_was_not_begun_is_handed_back_at_once(store: Store) -> None:
    go = asyncio.Event()
    seen: list[bytes] = []

    async def slow(entry: Entry) -> None:
        await go.wait()

    async def quick(entry: Entry) -> None:
        seen.append(entry.data)

    await add(store, *map(str, range(8)))
    async with consuming(store, "one", slow, slots=2, lease_ms=600_000):
        await wait_until("a full consumer", lambda: pending(store))
        await wait_until("two running", lambda: pending(store, "one"))
        asyncio.get_running_loop().call_later(0.05, go.set)
    async with consuming(store, "two", quick, lease_ms=600_000):
        await wait_until("the rest, long before its lease ends", lambda: settled(store))
    assert len(seen) >= 4
    assert len(set(seen)) == len(seen)


async def test_acknowledgements_travel_together(store: Store) -> None:
    async def work(entry: Entry) -> None:
        return None

    async with consuming(store, "one", work, slots=64):
        await add(store, "warm")
        await wait_until("a warm start", lambda: settled(store))
        before = await _calls(store, "xack")
        pipe = store.redis.pipeline()
        for n in range(320):
            pipe.xadd(KEY, {"data": n})
        await pipe.execute()
        await wait_until("all acknowledged", lambda: settled(store))
        assert await _calls(store, "xack") - before < 160


async def _calls(store: Store, command: str) -> int:
    stats = await store.redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_an_unreadable_entry_does_not_keep_the_rest_from_being_handed_back(store: Store) -> None:
    await ensure_group(store, KEY, GROUP)
    await store.call("XADD", KEY, "*", "other", "field")
    await add(store, "good")

    async def work(entry: Entry) -> None:
        raise RuntimeError("left pending")

    async with consuming(store, "one", work, lease_ms=600_000):
        await wait_until("both being read", lambda: _held(store, 2))
    assert await pending(store) == 0
    assert await store.call("XLEN", DEAD.key(0)) == 1
    groups = await store.redis.xinfo_groups(KEY)
    assert groups[0]["lag"] == 1


async def _held(store: Store, count: int) -> bool:
    return await pending(store, "one") == count


async def test_a_read_that_redis_refuses_is_tried_again_by_the_same_reader(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """FastStream would start anew at once, for ever, with a task more each time."""
    seen: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen.append(entry.data)

    async with consuming(store, "one", work) as consumer:
        try:
            await store.call("ACL", "SETUSER", "default", "-xreadgroup")
            await wait_until("a refusal", lambda: "reading waits for Redis" in caplog.text)
        finally:
            await store.call("ACL", "SETUSER", "default", "+xreadgroup")
        await add(store, "after")
        await wait_until("the entry", lambda: seen)
        assert len(consumer._subscriber.tasks) == 1
