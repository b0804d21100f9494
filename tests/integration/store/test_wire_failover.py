"""A wire does not stay with a server that is not the primary any more, also one that only reads over it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from pentad.shared.store import redis_replies
from pentad.shared.store.store import Store
from pentad.shared.store.wire import Wire
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.refusing import say
from tests.support.redis.switch import Switch
from tests.support.waiting import wait_until

KEY = "pentad:x"


@pytest.fixture
def old() -> Iterator[RedisServer]:
    with RedisServer() as server:
        say(server, "SET", KEY, "old")
        yield server


@pytest.fixture
def new() -> Iterator[RedisServer]:
    with RedisServer() as server:
        say(server, "SET", KEY, "new")
        yield server


@pytest.fixture
async def wire(old: RedisServer, new: RedisServer) -> AsyncIterator[tuple[Wire, Switch]]:
    """A wire that is older than a connection must be to be given up."""
    async with Switch(old.port) as switch:
        made = Wire(switch.url)
        await made.ask("PING")
        await asyncio.sleep(0.6)
        yield made, switch
        await made.close()


def fail_over(old: RedisServer, new: RedisServer, switch: Switch) -> None:
    """The address leads to the new one; open connections stay with the old one, which is read-only."""
    say(old, "REPLICAOF", "127.0.0.1", "1")
    switch.point_at(new.port, cut=False)


async def test_a_refused_write_ends_in_another_connection(
    wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer
) -> None:
    made, switch = wire
    fail_over(old, new, switch)
    with pytest.raises(ResponseError, match="READONLY"):
        await made.ask("SET", KEY, "mine")
    assert await made.ask("GET", KEY) == b"new"


async def test_what_was_asked_with_it_is_answered_all_the_same(
    wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer
) -> None:
    made, switch = wire
    fail_over(old, new, switch)
    asked = [made.ask("SET", KEY, "mine"), made.ask("GET", KEY), made.ask("SET", KEY, "mine"), made.ask("ECHO", "last")]
    refused, read, again, last = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(refused), read, type(again), last] == [ResponseError, b"old", ResponseError, b"last"]
    assert await made.ask("GET", KEY) == b"new"
    assert made.opened == 2


async def test_who_only_reads_does_not_stay_behind(
    wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer
) -> None:
    made, switch = wire
    fail_over(old, new, switch)

    async def reads_the_new_one() -> bool:
        return bool(await made.ask("GET", KEY) == b"new")

    await wait_until("the new server", reads_the_new_one)


async def test_who_waits_does_not_stay_behind(wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer) -> None:
    """It begins to wait when the server is a replica already, which ends no such wait."""
    made, switch = wire
    fail_over(old, new, switch)

    async def waits_at_the_new_one() -> bool:
        await made.ask("XREAD", "COUNT", 1, "BLOCK", 200, "STREAMS", "pentad:s", "$")
        return made.opened == 2

    await wait_until("the new server", waits_at_the_new_one)


async def test_a_server_that_stays_read_only_is_not_besieged(
    wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer
) -> None:
    made, _ = wire
    say(old, "REPLICAOF", "127.0.0.1", "1")
    for _ in range(50):
        with pytest.raises(ResponseError):
            await made.ask("SET", KEY, "mine")
    assert made.opened <= 3


async def test_what_the_old_server_never_answers_is_given_up(old: RedisServer, new: RedisServer) -> None:
    async with Switch(old.port) as switch:
        made = Wire(switch.url, timeout_s=0.8)
        await made.ask("PING")
        await asyncio.sleep(0.6)
        fail_over(old, new, switch)
        refused, never = made.ask("SET", KEY, "mine"), made.ask("XREAD", "BLOCK", 0, "STREAMS", "pentad:s", "$")
        with pytest.raises(ResponseError):
            await refused
        assert await made.ask("GET", KEY) == b"new"
        with pytest.raises(TimeoutError, match="no answer within"):
            await never
        await made.close()


async def test_closing_ends_what_the_old_server_owes(
    wire: tuple[Wire, Switch], old: RedisServer, new: RedisServer
) -> None:
    made, switch = wire
    fail_over(old, new, switch)
    refused, owed = made.ask("SET", KEY, "mine"), made.ask("XREAD", "BLOCK", 0, "STREAMS", "pentad:s", "$")
    with pytest.raises(ResponseError):
        await refused
    await made.close()
    with pytest.raises(ConnectionError, match="closed"):
        await owed


async def test_a_probe_changes_nothing(old: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_replies, "_PROBE_S", 0.0)
    store = Store(old.url)
    assert [await store.call("ECHO", n) for n in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    stats = old.command("INFO", "commandstats")
    assert b"cmdstat_del:calls=" in stats
    assert old.command("DBSIZE") == b":1\r\n"
    await store.close()


async def test_what_belongs_to_a_connection_goes_over_it_or_not_at_all(
    wire: tuple[Wire, Switch], new: RedisServer
) -> None:
    made, switch = wire
    switch.point_at(new.port, cut=False)
    assert await made.ask_on(made.opened, "GET", KEY) == b"old"
    first, refused = made.opened, ResponseError("READONLY You can't write against a read only replica.")
    before, bound, after = made.ask("ECHO", 1), made.ask_on(first, "SET", KEY, "bound"), made.ask("ECHO", 2)
    connection = made._line
    assert connection is not None
    made._refused(connection, refused)  # it is given up before any of them has left
    with pytest.raises(ConnectionError, match="replaced"):
        await bound
    assert [await before, await after] == [b"1", b"2"]
    with pytest.raises(ConnectionError, match="replaced"):
        made.ask_on(first, "SET", KEY, "bound")
    assert await made.ask("GET", KEY) == b"new"
