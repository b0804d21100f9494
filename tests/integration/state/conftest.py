"""The server that the scripts run on, and the moves of two workers on it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.state.store import Store
from tests.integration.containers.conftest import container_redis, container_redis_url, server_kinds
from tests.integration.state.moves import Moves
from tests.support.redis_server import redis_server, redis_url

__all__ = ["container_redis", "container_redis_url", "redis_server", "redis_url"]


@pytest.fixture(params=server_kinds())
def server_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty Redis: the wheel's, and the one in a container where an engine is there."""
    url: str = request.getfixturevalue("redis_url" if request.param == "wheel" else "container_redis_url")
    return url


@pytest.fixture
async def store(server_url: str) -> AsyncIterator[Store]:
    store = Store(server_url)
    yield store
    await store.close()


@pytest.fixture
async def moves(store: Store) -> Moves:
    """A task and a session, and what workers do to them."""
    made = Moves(store)
    await made.prepare()
    return made


def pytest_make_parametrize_id(config: Any, val: Any, argname: str) -> str | None:
    """Rules are named in test ids."""
    name = getattr(val, "name", None)
    return name if isinstance(name, str) else None
