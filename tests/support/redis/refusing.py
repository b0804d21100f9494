"""Ways to make a real Redis refuse commands, each for a block: as operators, full disks and neighbours cause it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

Way = Callable[[RedisServer], AbstractAsyncContextManager[None]]
WAKE = "pentad:{0}:wake:task"
INBOUND = "pentad:inbound"
_AWAY = "pentad-test:away"


def say(server: RedisServer, *words: str) -> bytes:
    """One command; a refusal of it is a mistake of the test."""
    reply = server.command(*words)
    assert not reply.startswith(b"-"), (words, reply)
    return reply


@asynccontextmanager
async def demoted(server: RedisServer) -> AsyncIterator[None]:
    """Cause READONLY, and UNBLOCKED for blocked clients: the server becomes a replica of a missing primary."""
    say(server, "REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        say(server, "REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def without_its_primary(server: RedisServer) -> AsyncIterator[None]:
    """Cause MASTERDOWN: the server is a replica that gives no stale answers."""
    async with configured(server, "replica-serve-stale-data", "no", "yes"), demoted(server):
        yield


@asynccontextmanager
async def configured(server: RedisServer, name: str, broken: str, good: str) -> AsyncIterator[None]:
    """Change a setting so that the server refuses commands, and restore it at the end."""
    say(server, "CONFIG", "SET", name, broken)
    try:
        yield
    finally:
        say(server, "CONFIG", "SET", name, good)


def full(server: RedisServer) -> AbstractAsyncContextManager[None]:
    """Cause OOM: the server has no memory for writes."""
    return configured(server, "maxmemory", "1", "0")


def too_few_replicas(server: RedisServer) -> AbstractAsyncContextManager[None]:
    """Cause NOREPLICAS: the server has too few replicas."""
    return configured(server, "min-replicas-to-write", "1", "0")


@asynccontextmanager
async def unable_to_save(server: RedisServer) -> AsyncIterator[None]:
    """Cause MISCONF: a folder takes the place of the server's snapshot."""
    taken = server.directory / "dump.rdb"
    taken.mkdir()
    (taken / "full").touch()
    try:
        async with configured(server, "save", "3600 1", ""):
            say(server, "BGSAVE")
            await wait_until("a failed snapshot", lambda: b"rdb_last_bgsave_status:err" in server.command("INFO"))
            yield
    finally:
        shutil.rmtree(taken)
        say(server, "BGSAVE")
        await wait_until("a snapshot", lambda: b"rdb_last_bgsave_status:ok" in server.command("INFO"))


@asynccontextmanager
async def busy(server: RedisServer) -> AsyncIterator[None]:
    """Cause BUSY: a client runs a script that does not end."""
    async with configured(server, "busy-reply-threshold", "10", "5000"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")
        try:
            await wait_until("the script to run", lambda: server.command("PING").startswith(b"-BUSY"))
            yield
        finally:
            say(server, "SCRIPT", "KILL")
            await reader.readline()
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def loading(server: RedisServer) -> AsyncIterator[None]:
    """Cause LOADING: the server is killed and started again with data that takes long to read."""
    slow = {"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024"}
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.start, slow, b"-LOADING")
    try:
        yield
    finally:
        say(server, "CONFIG", "SET", "key-load-delay", "0")
        await wait_until("the data", lambda: server.command("PING").startswith(b"+PONG"))


@asynccontextmanager
async def _replaced(server: RedisServer, key: str) -> AsyncIterator[None]:
    away = "redis.call('RENAME', KEYS[1], KEYS[2]) redis.call('SET', KEYS[1], 'somebody else')"
    back = "redis.call('DEL', KEYS[1]) redis.call('RENAME', KEYS[2], KEYS[1])"
    say(server, "EVAL", away, "2", key, _AWAY)
    try:
        yield
    finally:
        say(server, "EVAL", back, "2", key, _AWAY)


def with_a_strange_inbound(server: RedisServer) -> AbstractAsyncContextManager[None]:
    """Cause WRONGTYPE at the key of the inbound stream."""
    return _replaced(server, INBOUND)


def with_a_strange_wake(server: RedisServer) -> AbstractAsyncContextManager[None]:
    """Cause WRONGTYPE at the key of the tasks' wake-ups."""
    return _replaced(server, WAKE)


@asynccontextmanager
async def forbidding(server: RedisServer) -> AsyncIterator[None]:
    """Cause NOPERM: the user may not use one command that reads work and one with which scripts write."""
    say(server, "ACL", "SETUSER", "default", "-xreadgroup", "-evalsha")
    try:
        yield
    finally:
        say(server, "ACL", "SETUSER", "default", "+xreadgroup", "+evalsha")


@asynccontextmanager
async def with_a_password(server: RedisServer) -> AsyncIterator[None]:
    """Cause NOAUTH: the server wants a password, and every connection is new."""
    async with _operator(server) as operate:
        await operate("CONFIG SET requirepass secret")
        await operate("CLIENT KILL TYPE normal")
        try:
            yield
        finally:
            await operate("CONFIG SET requirepass ''")


@asynccontextmanager
async def crowded(server: RedisServer) -> AsyncIterator[None]:
    """Cause ``max number of clients reached``: only the operator and one other client have a place."""
    async with _operator(server) as operate:
        await operate("CONFIG SET maxclients 2")
        await operate("CLIENT KILL TYPE normal")
        try:
            yield
        finally:
            await operate("CONFIG SET maxclients 1000")


@asynccontextmanager
async def _operator(server: RedisServer) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Open an operator's connection before the server refuses commands."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

    async def operate(line: str) -> None:
        writer.write(line.encode() + b"\r\n")
        reply = await reader.readline()
        assert not reply.startswith(b"-"), (line, reply)

    try:
        yield operate
    finally:
        writer.close()
        await writer.wait_closed()
