"""A gateway on a real port over a real Redis."""

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from pentad.services.gateway.app import GatewayService, build
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.integration.gateway.speaker import Speaker
from tests.support.redis.redis_server import redis_server, redis_url
from tests.support.waiting import PATIENCE_S, in_time

__all__ = ["redis_server", "redis_url"]
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Certificates are not read: that takes 30 ms for each client, and the gateway speaks plain HTTP."""


@asynccontextmanager
async def running_at(port: int, redis: str, **settings: Any) -> AsyncIterator[GatewayService]:
    """A gateway on this port from its start to its stop."""
    loaded = load_settings({}, redis_url=redis, **settings)
    service = build(loaded, "127.0.0.1", port)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def running(redis: str, **settings: Any) -> AbstractAsyncContextManager[GatewayService]:
    """A gateway on a free port from its start to its stop."""
    return running_at(0, redis, **settings)


class Client:
    """A WebSocket client that speaks JSON."""

    def __init__(self, connection: ClientConnection, session: dict[str, Any]) -> None:
        self.connection, self.session = connection, session

    async def receive(self) -> dict[str, Any]:
        """The next frame."""
        async with in_time():
            frame: dict[str, Any] = json.loads(await self.connection.recv())
        return frame

    async def until(self, enough: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Frames up to and with the one that is enough."""
        frames: list[dict[str, Any]] = []
        while not frames or not enough(frames[-1]):
            frames.append(await self.receive())
        return frames

    async def send(self, **frame: Any) -> None:
        """Send one frame."""
        await self.connection.send(json.dumps(frame))


@asynccontextmanager
async def opened(address: str, query: str = "session_id=s1", **options: Any) -> AsyncIterator[Client]:
    """A WebSocket after its first frame."""
    url = f"ws{address.removeprefix('http')}/v1/ws?{query}"
    # A client that leaves much unread does not read the server's close frame either: it waits for it in vain.
    async with connect(url, proxy=None, compression=None, **{"close_timeout": 1, **options}) as connection:
        session = json.loads(await connection.recv())
        assert session["type"] == "session"
        yield Client(connection, session)


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """The other services' way to Redis."""
    store = Store(redis_url)
    yield store
    await store.close()


@pytest.fixture
def speaker(store: Store) -> Speaker:
    """Session s1's router and runner."""
    return Speaker(store)


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Any) -> AsyncIterator[GatewayService]:
    """An open gateway on loopback."""
    async with running(redis_url, pentad_data_dir=tmp_path) as service:
        yield service


@pytest.fixture
async def http(gateway: GatewayService) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of it."""
    async with AsyncExitStack() as stack:
        client = httpx2.AsyncClient(base_url=gateway.address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S)
        yield await stack.enter_async_context(client)
