"""After a failover that lost writes, or a step of the clock, an entry is done: twice rather than never."""

import struct
import time
from pathlib import Path

from pentad.contracts.streams import INBOUND
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.keys import SessionKeys
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from pentad.shared.work.entry import Entry
from tests.integration.inbound.test_ingress import drained, messages, send
from tests.integration.work.crew import GROUP, KEY, add, consuming, settled
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
_CRC = 0x95AC9329AC4BC9B5


async def replaced(store: Store, by: Store) -> None:
    """The connection for commands breaks, as in a failover; the next command opens another."""
    await by.call("CLIENT", "KILL", "ID", await store.call("CLIENT", "ID"))
    await wait_until("the end of the connection", lambda: not store._wire.connected)


async def test_what_was_done_over_another_connection_is_not_acknowledged_but_done_again(store: Store) -> None:
    seen: list[Entry] = []
    other = Store(store.url)

    async def work(entry: Entry) -> None:
        seen.append(entry)
        if len(seen) == 1:
            await replaced(store, other)

    async with consuming(store, "one", work):
        await add(store, "x")
        await wait_until("the second time", lambda: len(seen) == 2)
        await wait_until("the acknowledgement", lambda: settled(store))
    assert [entry.redelivered for entry in seen] == [False, True]
    await other.close()


async def test_an_inbound_entry_is_acknowledged_only_over_the_connection_on_which_it_was_moved(store: Store) -> None:
    """The server that the next connection leads to may not have the mail: here it has lost all that was moved."""
    mail, other = SessionKeys(0, "default", "s0").messages, Store(store.url)
    async with beside(Ingress(store, Settings(pentad_lease_s=10)).run()):
        while True:
            await send(other, *messages(1))
            await wait_until("the message to be moved", lambda: other.call("ZCARD", mail))
            keys, client = await other.call("KEYS", "pentad:{0}:*"), await store.call("CLIENT", "ID")
            # In one write: nothing happens in between.
            commands = (("XPENDING", INBOUND.key(), "router"), ("CLIENT", "KILL", "ID", client), ("DEL", *keys))
            (pending, *_), _, _ = await other.answers(commands)
            if pending:
                break  # it was moved, and not acknowledged when the writes were lost
        await wait_until("the message to be moved again", lambda: other.call("ZCARD", mail))
        await wait_until("the acknowledgement", lambda: drained(other))
    await other.close()


async def test_what_was_given_out_before_the_clock_stepped_back_is_taken_over(store: Store, tmp_path: Path) -> None:
    """XAUTOCLAIM finds no such entry until the clock has come there again."""
    await ensure_group(store, KEY, GROUP)
    await add(store, "left")
    before = await store.clock()
    await store.call("XREADGROUP", "GROUP", GROUP, "dead", "STREAMS", KEY, ">")
    dump = await store.call("DUMP", KEY)
    await store.call("RESTORE", KEY, 0, _an_hour_later(dump, before, await store.clock()), "REPLACE")
    assert await store.call("XAUTOCLAIM", KEY, GROUP, "one", 1, "0-0") == [b"0-0", [], []]
    seen: list[Entry] = []

    async def work(entry: Entry) -> None:
        seen.append(entry)

    async with consuming(store, "one", work, lease_ms=200):
        await wait_until("the entry", lambda: seen)
        await wait_until("the acknowledgement", lambda: settled(store))
    assert seen[0].redelivered


async def test_what_lives_is_not_taken_for_given_out_in_the_future(store: Store) -> None:
    """It is kept, so it ages between two looks."""
    await ensure_group(store, KEY, GROUP)
    (entry,) = await add(store, "held")
    await store.call("XREADGROUP", "GROUP", GROUP, "alive", "STREAMS", KEY, ">")

    async def work(_: Entry) -> None:
        raise AssertionError("somebody holds it")

    async with consuming(store, "one", work, lease_ms=2_000):
        end = time.monotonic() + 7
        while time.monotonic() < end:
            await store.call("XCLAIM", KEY, GROUP, "alive", 0, entry, "JUSTID")
            await wait_until("the entry to age", lambda: _idle(store, 5))
        ((_, holder, *_),) = await store.call("XPENDING", KEY, GROUP, "-", "+", 10)
    assert holder == b"alive"


async def _idle(store: Store, ms: int) -> bool:
    ((_, _, idle, _),) = await store.call("XPENDING", KEY, GROUP, "-", "+", 10)
    return bool(idle >= ms)


def _an_hour_later(dump: bytes, first_ms: int, last_ms: int) -> bytes:
    """A dumped stream whose pending entry was given out an hour after it was."""
    body = dump[:-8]
    for given in range(first_ms, last_ms + 1):
        body = body.replace(struct.pack("<q", given), struct.pack("<q", given + HOUR_MS))
    assert body != dump[:-8]
    return body + struct.pack("<Q", _crc64(body))


def _crc64(data: bytes) -> int:
    """The checksum of Redis's dumps (Jones, reflected)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC if crc & 1 else 0)
    return crc
