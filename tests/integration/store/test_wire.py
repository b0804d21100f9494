"""The wire: replies in order, whatever happens to those who wait for them, and no reply that is another's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    InvalidResponse,
    NoScriptError,
    ResponseError,
    TimeoutError,
)

from pentad.shared.store import wire as wire_module
from pentad.shared.store.redis_replies import RedisReplies
from pentad.shared.store.wire import Wire
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, wait_until

Talk = Callable[[bytes], bytes | None]
"""What a pretended server answers to what it was sent; None hangs up."""


@pytest.fixture
async def wire(server_url: str) -> AsyncIterator[Wire]:
    made = Wire(server_url)
    yield made
    await made.close()


@asynccontextmanager
async def pretended(talk: Talk, timeout_s: float = 5.0) -> AsyncIterator[Wire]:
    """A wire to a server that is none. What redis-py says of itself while it connects is taken with OK."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                answer = b"+OK\r\n" * data.count(b"SETINFO") if b"SETINFO" in data else talk(data)
                if answer is None:
                    break
                writer.write(answer)
        finally:
            writer.transport.abort()
            left.set()

    left = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = Wire(f"redis://127.0.0.1:{port}", timeout_s)
    try:
        yield made
    finally:
        await made.close()
        await left.wait()
        server.close()


async def test_each_reply_reaches_its_own_question(wire: Wire) -> None:
    asked = [wire.ask("ECHO", n) for n in range(500)]
    assert [int(reply) for reply in await asyncio.gather(*asked)] == list(range(500))


async def test_words_of_every_kind_arrive_as_they_are(wire: Wire) -> None:
    await wire.ask("RPUSH", b"words", "text é", b"\x00\r\n$5", 7, 1.5, "")
    assert await wire.ask("LRANGE", "words", 0, -1) == ["text é".encode(), b"\x00\r\n$5", b"7", b"1.5", b""]


async def test_a_refusal_is_its_own_question_s_alone(wire: Wire) -> None:
    before, wrong, script, after = (
        wire.ask("PING"),
        wire.ask("NOPE"),
        wire.ask("EVALSHA", "0" * 40, 0),
        wire.ask("PING"),
    )
    assert await before == b"PONG"
    with pytest.raises(ResponseError, match="unknown command"):
        await wrong
    with pytest.raises(NoScriptError):
        await script
    assert await after == b"PONG"


async def test_who_left_does_not_shift_the_others(wire: Wire) -> None:
    await wire.ask("PING")
    left, stays = wire.ask("ECHO", "left"), wire.ask("ECHO", "stays")
    left.cancel()
    assert await stays == b"stays"


async def test_what_is_told_keeps_its_place(wire: Wire) -> None:
    wire.tell("SET", "k", "1")
    wire.tell("NOPE")
    assert await wire.ask("GET", "k") == b"1"


async def test_what_is_told_leaves_with_what_is_asked_a_turn_later(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    send = RedisReplies.send

    def counted(line: RedisReplies, commands: list[bytes]) -> None:
        writes.append(len(commands))
        send(line, commands)

    await wire.ask("PING")
    monkeypatch.setattr(RedisReplies, "send", counted)
    wire.tell("SET", "k", "1")
    await asyncio.sleep(0)
    assert await wire.ask("GET", "k") == b"1"
    assert writes == [2]


async def test_what_is_told_leaves_also_when_nothing_follows(wire: Wire, server_url: str) -> None:
    other = Wire(server_url)
    wire.tell("SET", "told", "1")
    await wait_until("what was told on a new connection", lambda: other.ask("GET", "told"))
    wire.tell("DEL", "told")
    await wait_until("what was told on an open one", lambda: _gone(other))
    await other.close()


async def _gone(wire: Wire) -> bool:
    return await wire.ask("GET", "told") is None


async def test_a_large_reply_comes_whole(wire: Wire) -> None:
    large = b"x" * 3_000_000
    assert await wire.ask("ECHO", large) == large


async def test_a_restart_of_redis_fails_who_waits_and_nobody_after_it() -> None:
    async with RedisServer() as server:
        wire = Wire(server.url)
        await wire.ask("PING")
        waiting = wire.ask("BLPOP", "nothing", 5)
        await asyncio.to_thread(server.kill9)
        with pytest.raises(ConnectionError):
            await waiting
        assert not wire.connected
        await asyncio.to_thread(server.start)
        assert await wire.ask("PING") == b"PONG"
        await wire.close()


async def test_a_password_is_redis_py_s_to_send() -> None:
    async with RedisServer() as server:
        owner = Wire(server.url)
        await owner.ask("CONFIG", "SET", "requirepass", "secret")
        await owner.close()
        known, unknown = Wire(server.url.replace("//", "//:secret@")), Wire(server.url.replace("//", "//:wrong@"))
        assert await known.ask("PING") == b"PONG"
        with pytest.raises(AuthenticationError):
            await unknown.ask("PING")
        await known.close()
        await unknown.close()


async def test_silence_is_an_error_after_the_time_limit() -> None:
    async with pretended(lambda _: b"", timeout_s=0.05) as wire:
        with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
            await wire.ask("PING")
        assert not wire.connected


async def test_time_in_which_nothing_is_asked_is_no_silence(server_url: str) -> None:
    clock, wire = Wire(server_url), Wire(server_url, timeout_s=1.0)
    await wire.ask("PING")
    await clock.ask("BLPOP", "nothing", 0.9)
    assert wire.silence == 0
    assert await wire.ask("BLPOP", "nothing", 0.4) is None
    await clock.close()
    await wire.close()


async def test_a_server_that_hangs_up_fails_the_question() -> None:
    async with pretended(lambda _: None) as wire:
        with pytest.raises(ConnectionError):
            await wire.ask("PING")


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x01\x02\r\n"])
async def test_what_is_no_redis_fails_the_question(noise: bytes) -> None:
    async with pretended(lambda _: noise) as wire:
        with pytest.raises(InvalidResponse):
            await wire.ask("PING")


async def test_a_reply_that_nobody_asked_for_ends_the_connection() -> None:
    async with pretended(lambda _: b"+ONE\r\n+TWO\r\n") as wire:
        assert await wire.ask("PING") == b"ONE"
        await wait_until("the connection to be given up", lambda: not wire.connected)


async def test_closing_cancels_who_waits_and_the_next_question_opens_again(wire: Wire) -> None:
    await wire.ask("PING")
    waiting = wire.ask("BLPOP", "nothing", 5)
    await wire.close()
    assert waiting.cancelled()
    assert await wire.ask("PING") == b"PONG"


@pytest.mark.parametrize("turns", range(4))
async def test_closing_in_the_middle_of_opening_leaves_nothing_behind(server_url: str, turns: int) -> None:
    wire = Wire(server_url)
    given_up = wire.ask("PING")
    for _ in range(turns):
        await asyncio.sleep(0)
    await wire.close()
    assert given_up.done()
    assert await asyncio.wait_for(wire.ask("PING"), PATIENCE_S) == b"PONG"
    await wire.close()


async def test_whatever_goes_wrong_while_connecting_is_an_error_and_not_the_end(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop raises a bare RuntimeError when a connection breaks in redis-py's hands."""
    wire = Wire(server_url)
    connect = Connection.connect

    async def broken(self: Connection) -> None:
        raise RuntimeError("the handler is closed")

    monkeypatch.setattr(Connection, "connect", broken)
    with pytest.raises(ConnectionError, match="the handler is closed"):
        await wire.ask("PING")
    monkeypatch.setattr(Connection, "connect", connect)
    assert await wire.ask("PING") == b"PONG"
    await wire.close()


async def test_a_command_has_words(wire: Wire) -> None:
    with pytest.raises(ValueError, match="at least one word"):
        wire.ask()
    assert await wire.ask("PING") == b"PONG"


async def test_an_address_that_nobody_serves_fails_all_who_wait() -> None:
    wire = Wire("redis://127.0.0.1:1")
    asked = [wire.ask("PING"), wire.ask("PING")]
    for reply in asked:
        with pytest.raises(ConnectionError):
            await reply


@pytest.mark.parametrize("connected", [True, False])
async def test_what_is_told_right_before_the_close_arrives(server_url: str, connected: bool) -> None:
    told, other = Wire(server_url), Wire(server_url)
    if connected:
        await told.ask("PING")
    told.tell("SET", "last words", "x" * 1_000_000)
    await told.close()
    assert await other.ask("STRLEN", "last words") == 1_000_000
    await other.close()


async def test_a_close_waits_for_what_was_told_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says nothing more: whoever stops goes on, and a read that waits is cancelled."""
    monkeypatch.setattr(wire_module, "_FLUSH_S", 0.1)
    async with pretended(lambda _: b"", timeout_s=600) as wire:
        waiting = wire.ask("XREAD", "BLOCK", 600_000, "STREAMS", "s", "$")
        wire.tell("SET", "a", "b")
        await asyncio.wait_for(wire.close(), PATIENCE_S)
        assert waiting.cancelled()


async def test_a_close_without_anything_told_does_not_wait_for_a_read(server_url: str) -> None:
    wire = Wire(server_url)
    waiting = wire.ask("BLPOP", "nothing", 600)
    await asyncio.sleep(0)
    await asyncio.wait_for(wire.close(), PATIENCE_S)
    assert waiting.cancelled()
