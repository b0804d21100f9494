"""What is consumed, failed and set aside is counted per stream, each once."""

from pentad.contracts.streams import ARCHIVE, INBOUND
from pentad.shared import metrics
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Entry
from pentad.shared.work.housekeeping import Housekeeping
from tests.integration.inbound.test_ingress import drained, messages, send
from tests.integration.work.crew import GROUP, KEY, add, consuming, settled, working
from tests.support.counting import Counts, reading
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

STREAM = "archive"


async def test_housekeeping_finds_nothing_to_do_where_no_stream_is_yet(store: Store) -> None:
    """Promise: a system that has just started logs nothing of streams that nobody has written."""
    await Housekeeping(store, [(ARCHIVE, KEY)]).once()
    assert await store.groups(KEY) == []


async def test_a_consumer_counts_what_it_handled_what_failed_and_what_it_set_aside(store: Store) -> None:
    async def work(entry: Entry) -> None:
        if entry.data == b"poison":
            raise PoisonError("not for us")
        if entry.data == b"bad":
            raise RuntimeError("always")

    async def one_left() -> bool:
        (group,) = await store.redis.xinfo_groups(KEY)
        return bool(group["name"] == GROUP.encode() and (group["pending"], group["lag"]) == (1, 0))

    counts = Counts()
    async with consuming(store, "one", work, lease_ms=600_000):
        await add(store, "good", "good", "bad", "poison")
        await wait_until("all but the bad one to be acknowledged", one_left)
    grown = [counts.of(metric, stream=STREAM) for metric in (metrics.consumed, metrics.failed, metrics.dead)]
    assert grown == [2, 1, 1]
    assert counts.of(metrics.consumed) == 2, "nothing is counted for another stream"


async def test_every_failed_attempt_is_counted_and_an_outage_is_none(store: Store) -> None:
    tries = 0

    async def work(entry: Entry) -> None:
        nonlocal tries
        tries += 1
        raise OutageError("away") if tries == 1 else ValueError("never")

    counts = Counts()
    async with working(store, "one", work, attempts=2):
        await add(store, "x")
        await wait_until("the entry to be set aside", lambda: settled(store) if tries else False)
    assert (counts.of(metrics.failed, stream=STREAM), counts.of(metrics.dead, stream=STREAM)) == (2, 1)


async def test_the_ingress_counts_what_it_moved_and_what_it_set_aside(store: Store) -> None:
    counts = Counts()
    async with beside(Ingress(store, Settings(pentad_lease_s=0.5)).run()):
        await send(store, *messages(3), "no json")
        await wait_until("everything to be moved", lambda: drained(store))
    assert (counts.of(metrics.consumed, stream=INBOUND.name), counts.of(metrics.dead, stream=INBOUND.name)) == (3, 1)


async def test_housekeeping_shows_what_waits_and_cuts_what_is_done(store: Store) -> None:
    await store.call("CONFIG", "SET", "stream-node-max-entries", 10)
    await ensure_group(store, KEY, GROUP)
    await add(store, *map(str, range(100)))
    reply = await store.call("XREADGROUP", "GROUP", GROUP, "one", "COUNT", 60, "STREAMS", KEY, ">")
    read = [entry for entry, _ in reply[0][1]]
    await store.call("XACK", KEY, GROUP, *read[:50])
    await Housekeeping(store, [(ARCHIVE, KEY)]).once()
    where = {"stream": STREAM, "group": GROUP}
    assert (reading(metrics.lag, **where), reading(metrics.pending, **where)) == (40, 10)
    assert 50 <= await store.call("XLEN", KEY) < 60
