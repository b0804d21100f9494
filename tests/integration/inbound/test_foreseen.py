"""What the ingress's sleep has told is looked at ahead; only what the fenced read gives is routed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.shared.inbound.arrival import Arrival
from pentad.shared.inbound.fast_path import Source
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.keys import INBOUND_LEASE, SessionKeys
from pentad.shared.settings import Settings
from pentad.shared.store.store import Command, Store
from tests.integration.inbound.test_ingress import contents, drained, send
from tests.integration.work.test_lost_writes import replaced
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

KEY = INBOUND.key()
ASKED = "pentad:asked"
SETTINGS = Settings(pentad_lease_s=600)
Happening = Callable[[Arrival | None], Awaitable[Arrival | None]]


class Recording:
    """Routes nothing: every message is posted. What it is offered, and with which answers."""

    question: Command = ("GET", ASKED)

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.offered: list[tuple[str, Any]] = []

    def questions(self, session: SessionKeys) -> list[Command]:
        self.asked.append(session.session)
        return [self.question]

    async def route(self, session: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        self.offered.append((message.content, source.answers))
        return None


class Foreseeing:
    """An ingress, and what happens once between its waking and its read."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.mine = Store(url)
        self.recording = Recording()
        self.ingress = Ingress(self.mine, SETTINGS, self.recording)
        self.happening: Happening | None = None
        self._sleep = self.ingress._sleep
        self.ingress._sleep = self._and_then  # type: ignore[method-assign]

    async def _and_then(self, read: int) -> Arrival | None:
        foreseen = await self._sleep(read)
        if foreseen is not None and self.happening is not None:
            happening, self.happening = self.happening, None
            return await happening(foreseen)
        return foreseen

    async def say(self, content: str, session: str = "s0") -> str:
        """One message, until it is moved; its entry's id."""
        (entry,) = await send(self.store, {"content": content, "session_id": session})
        await wait_until(f"{content} to be moved", lambda: drained(self.store))
        return entry


@pytest.fixture
async def foreseeing(store: Store, server_url: str) -> AsyncIterator[Foreseeing]:
    found = Foreseeing(store, server_url)
    await store.call("SET", ASKED, "answer")
    async with beside(found.ingress.run()):
        await wait_until("the lease", lambda: store.call("HGET", INBOUND_LEASE, "owner"))
        await wait_until("the sleep", partial(_sleeps, store))
        yield found
    await found.mine.close()


async def _sleeps(store: Store) -> bool:
    return b"cmd=xread " in await store.call("CLIENT", "LIST")


async def test_the_questions_about_one_that_comes_alone_go_along_with_its_read(foreseeing: Foreseeing) -> None:
    for content in ("first", "second"):
        await foreseeing.say(content)
    assert foreseeing.recording.asked == ["s0", "s0"]
    assert foreseeing.recording.offered == [("first", [b"answer"]), ("second", [b"answer"])]
    assert await contents(foreseeing.store, "s0") == ["first", "second"]


async def test_they_leave_with_the_read_in_one_write(foreseeing: Foreseeing, monkeypatch: pytest.MonkeyPatch) -> None:
    line = foreseeing.mine._wire._line
    assert line is not None
    send, writes = line.send, []

    def count(commands: list[bytes]) -> None:
        writes.append(b"".join(commands))
        send(commands)

    monkeypatch.setattr(line, "send", count)
    await foreseeing.say("alone")
    (reading,) = [write for write in writes if ASKED.encode() in write]
    assert INBOUND_LEASE.encode() in reading.partition(ASKED.encode())[0]


async def test_of_two_neither_is_foreseen(foreseeing: Foreseeing) -> None:
    async def another_comes(foreseen: Arrival | None) -> Arrival | None:
        await send(foreseeing.store, {"content": "second", "session_id": "s0"})
        return foreseen

    foreseeing.happening = another_comes
    await foreseeing.say("first")
    assert foreseeing.recording.asked == ["s0"]
    assert foreseeing.recording.offered == []  # it is left to all routers
    assert await contents(foreseeing.store, "s0") == ["first", "second"]


async def test_what_another_router_has_read_meanwhile_is_not_routed(foreseeing: Foreseeing) -> None:
    store, taken = foreseeing.store, asyncio.Event()

    async def another_takes_over(foreseen: Arrival | None) -> Arrival | None:
        token = await store.call("HGET", INBOUND_LEASE, "token")
        await store.call("HSET", INBOUND_LEASE, "owner", "another", "token", int(token) + 1)
        ((_, entries),) = await store.call("XREADGROUP", "GROUP", "router", "router", "STREAMS", KEY, ">")
        assert [entry_id.decode() for entry_id, _ in entries] == [foreseen and foreseen.entry_id]
        await store.call("XACK", KEY, "router", entries[0][0])
        await store.call("HSET", INBOUND_LEASE, "exp", 0)
        taken.set()
        return foreseen

    foreseeing.happening = another_takes_over
    await foreseeing.say("the other's")
    assert taken.is_set()
    await foreseeing.say("ours", "s1")
    assert [content for content, _ in foreseeing.recording.offered] == ["ours"]
    assert await contents(store, "s0") == []


async def test_what_was_foreseen_over_a_connection_that_is_gone_is_read_anew(foreseeing: Foreseeing) -> None:
    async def it_is_replaced(foreseen: Arrival | None) -> Arrival | None:
        await replaced(foreseeing.mine, foreseeing.store)
        await foreseeing.mine.call("PING")  # there is another
        return foreseen

    foreseeing.happening = it_is_replaced
    await foreseeing.say("first")
    assert foreseeing.recording.offered == [("first", None)]
    assert await contents(foreseeing.store, "s0") == ["first"]


async def test_the_answers_are_not_used_for_another_entry_of_the_same_id(foreseeing: Foreseeing) -> None:
    async def the_stream_is_replaced(foreseen: Arrival | None) -> Arrival | None:
        assert foreseen is not None
        return replace(foreseen, fields={b"data": b'{"content":"other","session_id":"s9"}'})

    foreseeing.happening = the_stream_is_replaced
    await foreseeing.say("real")
    assert foreseeing.recording.offered == [("real", None)]


async def test_what_cannot_be_read_is_not_looked_at_ahead(foreseeing: Foreseeing) -> None:
    await send(foreseeing.store, "no json")
    await wait_until("it to be set aside", lambda: drained(foreseeing.store))
    assert foreseeing.recording.asked == []
    await foreseeing.say("good")
    assert foreseeing.recording.offered == [("good", [b"answer"])]


async def test_a_question_that_is_refused_holds_nothing_up(foreseeing: Foreseeing) -> None:
    foreseeing.recording.question = ("HGETALL", ASKED)  # which is no hash
    await foreseeing.say("first")
    assert foreseeing.recording.offered == [("first", None)]


async def test_a_read_whose_script_the_server_does_not_know_is_sent_in_full(foreseeing: Foreseeing) -> None:
    await foreseeing.store.call("SCRIPT", "FLUSH")
    await foreseeing.say("first")
    assert foreseeing.recording.offered == [("first", [b"answer"])]


async def test_what_comes_while_another_is_handled_is_not_waited_for(
    foreseeing: Foreseeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its news arrive while nobody listens; a blocked read that missed it would sleep for long."""
    monkeypatch.setattr("pentad.shared.inbound.ingress._BLOCK_MS", 600_000)
    foreseeing.mine._blocking_wire._timeout_s = 600
    route = foreseeing.recording.route

    async def slow(session: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        if message.content == "first":
            await send(foreseeing.store, {"content": "second", "session_id": "s0"})
            await foreseeing.mine.call("PING")
        return await route(session, message, entry_id, source)

    monkeypatch.setattr(foreseeing.recording, "route", slow)
    await send(foreseeing.store, {"content": "first", "session_id": "s0"})
    await wait_until("both", lambda: _all(foreseeing.store, 2))
    assert foreseeing.recording.offered == [("first", [b"answer"]), ("second", [b"answer"])]


async def _all(store: Store, count: int) -> bool:
    return len(await contents(store, "s0")) == count
