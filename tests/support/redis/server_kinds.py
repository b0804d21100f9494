"""Fixtures for suites that hold on every kind of Redis: the wheel's, and one in a container; or the given one."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.store.store import Store
from tests.support.redis.redis_server import redis_server, redis_url
from tests.support.stores.open_stores import OpenStores, open_stores
from tests.support.stores.redis import REDIS

__all__ = ["open_stores", "redis_server", "redis_url", "server_url", "store"]


@pytest.fixture(params=REDIS.here(True))
def server_url(request: pytest.FixtureRequest, open_stores: OpenStores) -> str:
    """The address of an empty Redis of each kind that there is here."""
    if request.param == "process":
        url: str = request.getfixturevalue("redis_url")
        return url
    server = open_stores.get(REDIS, request.param)
    server.empty()
    return server.url


@pytest.fixture
async def store(server_url: str) -> AsyncIterator[Store]:
    """The store on it."""
    made = Store(server_url)
    yield made
    await made.close()
