"""Consumers and ingresses on a server of their own."""

from collections.abc import AsyncIterator

import pytest

from shared.state.store import Store
from tests.support.redis_server import redis_server, redis_url

__all__ = ["redis_server", "redis_url"]


@pytest.fixture
def server_url(redis_url: str) -> str:
    """The address of an empty Redis. The one place that says which server these suites run on."""
    return redis_url


@pytest.fixture
async def store(server_url: str) -> AsyncIterator[Store]:
    store = Store(server_url)
    yield store
    await store.close()
