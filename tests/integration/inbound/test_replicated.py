"""`PENTAD_REDIS_REPLICAS`: a message is accepted only when replicas have it too."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.store.store import Store
from tests.support.redis.failover import Redundant
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

KEY = INBOUND.key()


@pytest.fixture
async def redis() -> AsyncIterator[Redundant]:
    async with Redundant(aof="no") as redundant:
        yield redundant


@pytest.fixture
async def store(redis: Redundant) -> AsyncIterator[Store]:
    store = Store(redis.url)
    yield store
    await store.close()


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[Inbox]:
    inbox = Inbox(store, 100, 100, replicas=1)
    yield inbox
    await inbox.close()


def message(number: int) -> InboundMessage:
    return InboundMessage(tenant_id="default", session_id="s1", message_id=f"m{number}", content="hello")


async def test_what_no_replica_has_is_in_doubt_and_holds_up_nothing_else(
    redis: Redundant, store: Store, inbox: Inbox
) -> None:
    redis.hold_back()
    append = asyncio.create_task(inbox.append(message(1)))
    await wait_until("the append to be there", lambda: store.call("XLEN", KEY))
    assert not append.done(), "it waits for the replica, and the other commands did not wait for it"
    with pytest.raises(OutageError, match="0 of 1 replicas have a message"):
        await append


async def test_appends_that_come_together_wait_together(redis: Redundant, inbox: Inbox) -> None:
    entries = await asyncio.gather(*(inbox.append(message(n)) for n in range(50)))
    assert sorted(entries, key=lambda e: [int(part) for part in e.split("-")]) == entries
    calls = redis.primary.command("INFO", "commandstats").decode().split("cmdstat_wait:calls=")[1].split(",")[0]
    assert int(calls) < 50


async def test_a_message_that_was_accepted_survives_any_failover(redis: Redundant, store: Store, inbox: Inbox) -> None:
    accepted: list[str] = []

    async def send() -> None:
        for number in range(10_000):
            try:
                accepted.append(await inbox.append(message(number)))
            except OutageError:
                await asyncio.sleep(0.01)

    missing: list[str] = []

    def check(primary: RedisServer) -> None:
        held = primary.command("XRANGE", KEY, "(" + first, "+").decode()
        missing.extend(entry for entry in [*accepted] if entry > first and entry not in held)

    sender = asyncio.create_task(send())
    await wait_until("messages to be accepted", lambda: len(accepted) > 20)
    first = accepted[-1]
    await redis.take_over("killed", lag_s=0.2, check=check)
    before = len(accepted)
    await wait_until("messages to be accepted again", lambda: len(accepted) > before)
    sender.cancel()
    assert missing == []


async def test_a_primary_that_is_demoted_meanwhile_is_an_outage(redis: Redundant, inbox: Inbox) -> None:
    redis.hold_back()
    append = asyncio.create_task(inbox.append(message(1)))
    await wait_until("the WAIT", lambda: b"blocked_clients:0" not in redis.primary.command("INFO", "clients"))
    redis.primary.demote()
    with pytest.raises(OutageError):
        await append
    redis.primary.promote()


async def test_a_wait_that_is_refused_leaves_the_message_in_doubt(redis: Redundant, store: Store, inbox: Inbox) -> None:
    """The entry is there: "nothing was appended" would be untrue, and the next with another id a second message."""
    await store.call("ACL", "SETUSER", "default", "-wait")
    with pytest.raises(OutageError, match="is not known") as refused:
        await inbox.append(message(1))
    await store.call("ACL", "SETUSER", "default", "+wait")
    assert not isinstance(refused.value, RefusedWriteError)
    assert await store.call("XLEN", KEY) == 1
