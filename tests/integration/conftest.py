"""A server that a test starts from, and the moves of two workers on it."""

from typing import Any

import pytest

from pentad.shared.store.store import Store
from tests.integration.actors.moves import Moves
from tests.support.redis.server_kinds import (
    open_stores,
    redis_server,
    redis_url,
    server_url,
    store,
)

__all__ = ["open_stores", "redis_server", "redis_url", "server_url", "store"]


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
