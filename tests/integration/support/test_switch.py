"""The tests' switch does what a load balancer does: the tests of failovers stand on it."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.redis.redis_server import RedisServer
from tests.support.redis.switch import Switch
from tests.support.waiting import wait_until


@pytest.fixture
def other() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def switch(redis_server: RedisServer, other: RedisServer) -> Iterator[Switch]:
    redis_server.command("FLUSHALL")
    redis_server.command("SET", "who", "first")
    other.command("SET", "who", "second")
    with Switch(redis_server.port) as switch:
        yield switch


def _dial(switch: Switch) -> socket.socket:
    return socket.create_connection(("127.0.0.1", switch.port), timeout=10)


def _ask(wire: socket.socket, words: bytes) -> bytes:
    wire.sendall(words + b"\r\n")
    return wire.recv(1000)


def test_new_connections_reach_the_new_server_and_open_ones_end(switch: Switch, other: RedisServer) -> None:
    with _dial(switch) as old:
        assert b"first" in _ask(old, b"GET who")
        switch.point_at(other.port)
        assert _has_ended(old)
        with _dial(switch) as new:
            assert b"second" in _ask(new, b"GET who")


def test_open_connections_stay_with_the_old_server(switch: Switch, other: RedisServer) -> None:
    with _dial(switch) as old:
        assert b"first" in _ask(old, b"GET who")
        switch.point_at(other.port, cut=False)
        with _dial(switch) as new:
            assert b"second" in _ask(new, b"GET who")
        assert b"first" in _ask(old, b"GET who")


def test_what_is_held_passes_when_it_is_released(switch: Switch) -> None:
    with _dial(switch) as wire:
        assert b"first" in _ask(wire, b"GET who")
        switch.hold()
        wire.sendall(b"GET who\r\n")
        wire.settimeout(0.1)
        with pytest.raises(TimeoutError):
            wire.recv(1)
        wire.settimeout(10)
        switch.release()
        assert b"first" in wire.recv(1000)


async def test_a_lost_reply_is_of_a_command_that_was_executed(switch: Switch, redis_server: RedisServer) -> None:
    with _dial(switch) as wire:
        assert b"first" in _ask(wire, b"GET who")
        switch.lose_replies()
        wire.sendall(b"SET who changed\r\n")
        await wait_until("the command to be executed", lambda: b"changed" in redis_server.command("GET", "who"))
        switch.cut()
        switch.release()
        assert _has_ended(wire)


def test_a_server_that_is_away_ends_the_connection(switch: Switch, other: RedisServer) -> None:
    other.kill9()
    switch.point_at(other.port)
    with _dial(switch) as wire:
        assert _has_ended(wire)


def _has_ended(wire: socket.socket) -> bool:
    try:
        return wire.recv(1) == b""
    except ConnectionError:
        return True
