"""Fixtures for suites that hold on every kind of Redis: the wheel's server, and the one in a container."""

from collections.abc import AsyncIterator

import pytest

from pentad.shared.store.store import Store
from tests.support.redis.container_redis import container_redis, container_redis_url, server_kinds
from tests.support.redis.redis_server import redis_server, redis_url

__all__ = ["container_redis", "container_redis_url", "redis_server", "redis_url", "server_url", "store"]


@pytest.fixture(params=server_kinds())
def server_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty Redis: the wheel's, and the one in a container where an engine is there."""
    url: str = request.getfixturevalue("redis_url" if request.param == "wheel" else "container_redis_url")
    return url


@pytest.fixture
async def store(server_url: str) -> AsyncIterator[Store]:
    """The store on it."""
    made = Store(server_url)
    yield made
    await made.close()
