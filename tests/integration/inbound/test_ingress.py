"""Inbound entries reach their sessions' mailboxes in order, once, whichever router moves them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import shard_of
from pentad.contracts.streams import EVENTS, INBOUND, INBOUND_DEAD
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.inbound import ingress as inbound
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.inbound.fast_path import Source
from pentad.shared.inbound.ingress import Ingress
from pentad.shared.keys import INBOUND_LEASE, SessionKeys, dedup, load
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Command, Store
from tests.support.waiting import PATIENCE_S, wait_until

SETTINGS = Settings(pentad_lease_s=0.5)
LONG = Settings(pentad_lease_s=600)
KEY = INBOUND.key()


class Router:
    """An ingress that runs until it is killed or stopped."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.store = Store(url)
        self.ingress = Ingress(self.store, settings)
        self.task = asyncio.create_task(self.ingress.run())

    async def kill(self) -> None:
        """It says nothing more: the lease ends by itself."""
        while not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task], timeout=0.05)
        await self.store.close()


Start = Callable[..., Router]


@pytest.fixture
async def start(server_url: str) -> AsyncIterator[Start]:
    """``start()`` runs one more ingress."""
    async with AsyncExitStack() as stack:

        def make(settings: Settings = SETTINGS) -> Router:
            router = Router(server_url, settings)
            stack.push_async_callback(router.kill)
            return router

        yield make


async def send(store: Store, *bodies: dict[str, Any] | str | bytes) -> list[str]:
    """Append entries in one go; their ids."""
    pipe = store.redis.pipeline(transaction=False)
    for body in bodies:
        pipe.xadd(KEY, {"data": json.dumps(body) if isinstance(body, dict) else body})
    return [entry.decode() for entry in await pipe.execute()]


def messages(count: int, sessions: int = 1, first: int = 0) -> list[dict[str, Any]]:
    return [{"content": str(n), "session_id": f"s{n % sessions}"} for n in range(first, first + count)]


async def contents(store: Store, session: str, shards: int = 1) -> list[str]:
    keys = SessionKeys(shard_of("default", session, shards), "default", session)
    mail = await store.call("ZRANGE", keys.messages, 0, -1)
    return [read_session_mail(m.split(b" ", 2)[2])[1].content for m in mail]


async def drained(store: Store) -> bool:
    groups = await store.redis.xinfo_groups(KEY)
    return bool(groups) and groups[0]["pending"] == 0 and groups[0]["lag"] == 0


async def test_every_session_gets_its_messages_in_order(store: Store, start: Start) -> None:
    start()
    start()
    await send(store, *messages(500, sessions=7))
    await wait_until("everything to be moved", lambda: drained(store))
    for session in range(7):
        assert await contents(store, f"s{session}") == [str(n) for n in range(session, 500, 7)]


async def test_order_holds_while_the_holder_is_killed_again_and_again(store: Store, start: Start) -> None:
    routers = [start() for _ in range(3)]
    for burst in range(4):
        await send(store, *messages(200, sessions=3, first=200 * burst))
        await wait_until("some of it", partial(_some, store, 200 * burst))
        holder = await _holder(store, routers)
        await holder.kill()
        routers.remove(holder)
        routers.append(start())
    await wait_until("everything to be moved", lambda: drained(store))
    for session in range(3):
        assert await contents(store, f"s{session}") == [str(n) for n in range(800) if n % 3 == session]


async def _some(store: Store, more_than: int) -> bool:
    return int(await store.call("HGET", load(0), "mail") or 0) > more_than


async def _holder(store: Store, routers: list[Router]) -> Router:
    owner = (await store.call("HGET", INBOUND_LEASE, "owner")).decode()
    return next(r for r in routers if r.ingress._owner == owner)


async def test_a_holder_that_leaves_lets_another_go_on_at_once(store: Store, start: Start) -> None:
    one = start(LONG)
    await send(store, *messages(1))
    await wait_until("the first", lambda: drained(store))
    await one.ingress.release()
    await one.kill()
    start(Settings(pentad_lease_s=1))
    await send(store, *messages(1, first=1))
    await wait_until("the second", lambda: _count(store, "s0", 2))


async def _count(store: Store, session: str, count: int) -> bool:
    return len(await contents(store, session)) == count


async def test_what_cannot_be_read_is_set_aside_once_and_the_session_is_told_once(store: Store, start: Start) -> None:
    start()
    await send(store, {"session_id": "s1", "message_id": "m1"}, "no json", b"\xff", '"text"', {"content": "good"})
    await store.call("XADD", KEY, "*", "other", "field")
    await wait_until("everything to be moved", lambda: drained(store))
    (letter,) = await store.call("XRANGE", KEY, "-", "+", "COUNT", 1)
    await store.call("XGROUP", "SETID", KEY, "router", "0")  # all of it comes once more
    await wait_until("everything again", lambda: drained(store))
    letters = [
        DeadLetter.model_validate_json(f[1]) for _, f in await store.call("XRANGE", INBOUND_DEAD.key(), "-", "+")
    ]
    assert len(letters) == 5
    assert letters[0].entry_id == letter[0].decode()
    assert "content" in letters[0].reason
    assert letters[2].body == {"data": "\\xff"}
    events = await store.call("XRANGE", EVENTS.key(0, tenant="default", session="s1"), "-", "+")
    told = [json.loads(f[1]) for _, f in events]
    assert [(e["type"], e["code"], e["message_id"]) for e in told] == [("error", "bad_message", "m1")]


async def test_another_text_under_an_accepted_id_is_set_aside_once_and_told_once(store: Store, start: Start) -> None:
    """Promise: a message id belongs to one text; the sender of another one learns it, and no message is lost."""
    start()
    said = {"session_id": "s1", "message_id": "m1", "content": "first"}
    await send(store, said, said, said | {"content": "second"}, said | {"session_id": "s2", "content": "second"})
    await wait_until("everything to be moved", lambda: drained(store))
    await store.call("XGROUP", "SETID", KEY, "router", "0")  # all of it comes once more
    await wait_until("everything again", lambda: drained(store))
    [(_, fields)] = await store.call("XRANGE", INBOUND_DEAD.key(), "-", "+")
    letter = DeadLetter.model_validate_json(fields[1])
    assert message_digest(InboundMessage(content="first")) in letter.reason
    assert message_digest(InboundMessage(content="second")) in letter.reason
    [(_, event)] = await store.call("XRANGE", EVENTS.key(0, tenant="default", session="s1"), "-", "+")
    assert json.loads(event[1])["code"] == "bad_message"
    assert await contents(store, "s1") == ["first"]
    assert await contents(store, "s2") == ["second"]


async def test_a_message_without_a_session_or_an_id_gets_its_entrys(store: Store, start: Start) -> None:
    start()
    (entry,) = await send(store, {"content": "alone"})
    await wait_until("the message", lambda: _count(store, f"s-{entry}", 1))
    mail = await store.call("ZRANGE", SessionKeys(0, "default", f"s-{entry}").messages, 0, -1)
    assert read_session_mail(mail[0].split(b" ", 2)[2])[1].message_id == entry


async def test_nothing_is_copied_over_the_limit_and_order_holds(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "WAITING_LIMIT", 5)
    start()
    await send(store, *messages(20))
    await wait_until("five", lambda: _count(store, "s0", 5))
    assert await store.call("HGET", load(0), "mail") == b"5"
    for routed in range(5, 25, 5):
        await store.call("HINCRBY", load(0), "mail", -5)
        await wait_until("five more", partial(_count, store, "s0", min(20, routed + 5)))
    assert await contents(store, "s0") == [str(n) for n in range(20)]


@asynccontextmanager
async def _shards() -> AsyncIterator[Settings]:
    yield Settings(pentad_lease_s=0.5, pentad_shards=3)


async def test_each_shard_gets_its_own_sessions(store: Store, start: Start) -> None:
    async with _shards() as settings:
        start(settings)
        await send(store, *messages(60, sessions=12))
        await wait_until("everything to be moved", lambda: drained(store))
        for session in range(12):
            assert await contents(store, f"s{session}", 3) == [str(n) for n in range(session, 60, 12)]


async def test_an_ingress_goes_on_when_its_group_vanishes(store: Store, start: Start) -> None:
    start()
    await send(store, *messages(1))
    await wait_until("the first", lambda: drained(store))
    await store.call("FLUSHALL")
    await send(store, *messages(1, first=1))
    await wait_until("the second", lambda: _count(store, "s0", 1))


async def test_nothing_is_acknowledged_before_it_is_moved(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    await send(store, *messages(1))
    await wait_until("the first", lambda: drained(store))
    run, moving = one.store.run, asyncio.Event()

    async def slow(name: str, keys: Sequence[str], args: Sequence[Argument], on: int | None = None) -> Any:
        if name == "ingest":
            moving.set()
            await asyncio.Event().wait()
        return await run(name, keys, args, on)

    monkeypatch.setattr(one.store, "run", slow)
    sent = await send(store, *messages(3, first=1), "no json")
    await moving.wait()
    await asyncio.wait_for(one.kill(), PATIENCE_S)  # in the middle of the move
    held = [entry.decode() for entry, *_ in await store.call("XPENDING", KEY, "router", "-", "+", 10)]
    assert held
    assert set(held) <= set(sent)
    assert await contents(store, "s0") == ["0"]
    start()
    await wait_until("the rest", lambda: drained(store))
    assert await contents(store, "s0") == ["0", "1", "2", "3"]


async def test_a_holder_that_leaves_has_acknowledged_what_it_moved(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start()
    monkeypatch.setattr(one.ingress, "_sleep", asyncio.Event().wait)  # its next read would acknowledge
    await send(store, *messages(3))
    await wait_until("the messages", lambda: _count(store, "s0", 3))
    await wait_until("the end of the move", lambda: len(one.ingress._acks) == 3)
    await one.ingress.release()
    assert await store.call("XPENDING", KEY, "router", "-", "+", 10) == []


async def test_a_waiting_router_goes_on_at_once_however_long_the_lease(
    store: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = start(LONG)
    await wait_until("one to hold", lambda: store.call("HGET", INBOUND_LEASE, "owner"))
    other = start(LONG)
    asked: list[bool] = []
    lease = other.ingress._lease

    async def in_vain() -> bool:
        asked.append(await lease())
        return asked[-1]

    monkeypatch.setattr(other.ingress, "_lease", in_vain)
    await wait_until("the other to ask", lambda: asked)
    assert asked[0] is False
    await cancel_all([one.task])
    await one.ingress.release()
    await send(store, *messages(1))
    await wait_until("the message, long before the lease ends", lambda: _count(store, "s0", 1))


async def test_a_message_id_is_remembered_for_a_day(store: Store, start: Start) -> None:
    start()
    await send(store, {"content": "a", "session_id": "s1", "message_id": "m1"})
    await wait_until("the message", lambda: drained(store))
    assert 86_000 < await store.call("TTL", dedup(0, "default", "s1", "m1")) <= 86_400


class Choosing:
    """Routes what is called ``taken``, knowing what lies under the session's name; the rest is posted."""

    def __init__(self) -> None:
        self.offered: list[str] = []
        self.known: dict[str, Any] = {}
        self.away = ""
        """Redis is away, once, when this is offered."""

    def questions(self, session: SessionKeys) -> list[Command]:
        return [("GET", session.session), ("GET", "nothing")]

    async def route(self, session: SessionKeys, message: InboundMessage, entry: str, source: Source) -> int | None:
        self.offered.append(message.content)
        self.known[session.session] = source.answers
        if message.content == self.away:
            self.away = ""
            raise OutageError("Redis is unavailable")
        return 1 if message.content.startswith("taken") else None


@pytest.fixture
async def choosing(server_url: str) -> AsyncIterator[tuple[Choosing, Callable[[], None]]]:
    """What is offered, and a function that starts the ingress."""
    mine, found = Store(server_url), Choosing()
    tasks: list[asyncio.Task[None]] = []
    yield found, lambda: tasks.append(asyncio.create_task(Ingress(mine, SETTINGS, found).run()))
    await cancel_all(tasks)
    await mine.close()


Chosen = tuple[Choosing, Callable[[], None]]


async def test_what_comes_alone_is_offered_to_be_routed_at_once(store: Store, choosing: Chosen) -> None:
    found, run = choosing
    run()
    for said in ("taken", "posted"):
        await send(store, {"content": said, "session_id": "s0"})
        await wait_until("it to be moved", lambda: drained(store))
    assert found.offered == ["taken", "posted"]
    assert await contents(store, "s0") == ["posted"]


async def test_of_few_that_come_together_each_is_offered_with_what_is_known_of_its_session(
    store: Store, choosing: Chosen
) -> None:
    found, run = choosing
    await store.call("MSET", "s0", "zero", "s1", "one")
    said = {"s0": ["taken", "posted"], "s1": ["taken 1"], "s2": ["posted 2"]}
    pairs = [(session, content) for session, several in said.items() for content in several]
    await send(store, *({"content": content, "session_id": session} for session, content in pairs))
    run()
    await wait_until("them to be moved", lambda: drained(store))
    assert found.offered == ["taken 1", "posted 2"], "of a session with several, none: they keep their order"
    assert found.known == {"s1": [b"one", None], "s2": [None, None]}
    assert [await contents(store, f"s{n}") for n in range(3)] == [["taken", "posted"], [], ["posted 2"]]


async def test_an_outage_at_one_of_few_loses_none_of_them(store: Store, choosing: Chosen) -> None:
    """All that came together is read again; that none counts twice is the commit's business."""
    found, run = choosing
    found.away = "posted 1"
    await send(store, *({"content": f"posted {n}", "session_id": f"s{n}"} for n in range(3)))
    run()
    await wait_until("them to be moved", lambda: drained(store))
    assert found.offered == [f"posted {n}" for n in range(3)] * 2
    assert [await contents(store, f"s{n}") for n in range(3)] == [[f"posted {n}"] for n in range(3)]


async def test_of_many_that_come_together_none_is_offered(store: Store, choosing: Chosen) -> None:
    """Under load all routers decide, and the one that reads only moves."""
    found, run = choosing
    await send(store, *messages(inbound._FAST_PATH_LIMIT + 1, sessions=inbound._FAST_PATH_LIMIT + 1))
    run()
    await wait_until("them to be moved", lambda: drained(store))
    assert found.offered == []
