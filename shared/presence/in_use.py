"""Which models the running processes use: each says so for as long as it runs, under a key that ends soon after."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pydantic import BaseModel, ConfigDict
from redis.exceptions import RedisError

from pentad.shared.errors import OutageError
from pentad.shared.keys import IN_USE
from pentad.shared.store.store import Store

_EVERY_S = 2.0
TTL_S = 6
"""How long a process's words are kept. A key that ends later was written before the clock of Redis stepped back."""


class ModelInUse(BaseModel):
    """A process's model. Nothing in it is secret."""

    model_config = ConfigDict(frozen=True)

    service: str
    model: str
    place: str | None
    """Where it is asked; None for what answers in the process itself."""


async def keep_announcing(store: Store, consumer: str, now: Callable[[], ModelInUse]) -> None:
    """Publish it every few seconds, and remove it at the end. Nobody waits for it, so an outage harms nothing."""
    key = f"{IN_USE}{consumer}"
    try:
        while True:
            with suppress(OutageError, RedisError):
                await store.call("SET", key, now().model_dump_json(), "EX", TTL_S)
            await asyncio.sleep(_EVERY_S)
    finally:
        with suppress(OutageError, RedisError):
            await store.call("DEL", key)
