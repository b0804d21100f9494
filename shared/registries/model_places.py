"""How many calls a model has in the whole system, and who probes it: agreed in Redis, by its clock, under leases."""

import asyncio
import logging
from contextlib import suppress

from redis.exceptions import RedisError

from pentad.shared.errors import OutageError
from pentad.shared.keys import model_places, model_probe
from pentad.shared.models.ports import ModelBusy
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Argument, Store, guarded

log = logging.getLogger(__name__)

LEASE_MS = 15_000
"""After this the place of a process that was killed is free."""
_BEAT_S = 5.0
_MOST_WAITING = 10_000
_PROBE_LONGER_S = 5.0
"""A probe ends itself in time; the key of one whose process was killed ends so much later."""


class ModelPlaces:
    """The port `ModelGate` on Redis. A place is had for at most what is in flight when Redis loses its last writes."""

    def __init__(self, store: Store, lease_ms: int = LEASE_MS) -> None:
        self._store, self._lease_ms = store, lease_ms
        self._held: dict[str, set[str]] = {}

    async def enter(self, model_id: str, limit: int, caller: str, wait: bool) -> str:
        """See `ModelGate.enter`. Waits for Redis when it is away."""
        place = random_hex(24)
        args: list[Argument] = [limit, self._lease_ms, place, caller or place, _MOST_WAITING if wait else 0]
        pause = await guarded("a model's place", self._store.run, "model_enter", model_places(model_id), args)
        if pause:
            raise ModelBusy(f"model {model_id} has its {limit} calls under way", pause / 1000)
        self._held.setdefault(model_id, set()).add(place)
        return place

    def leave(self, model_id: str, place: str) -> None:
        """See `ModelGate.leave`. One that is lost on the way ends with its lease."""
        self._held[model_id].discard(place)
        self._store.send("ZREM", model_places(model_id)[0], place)

    async def may_probe(self, model_id: str, for_s: float) -> bool:
        """See `ModelGate.may_probe`. While Redis is away nobody may."""
        ms = round((for_s + _PROBE_LONGER_S) * 1000)
        with suppress(OutageError):
            return bool(await self._store.run("model_probe", [model_probe(model_id)], [ms]))
        return False

    def probed(self, model_id: str) -> None:
        """See `ModelGate.probed`."""
        self._store.send("DEL", model_probe(model_id))

    async def keep(self) -> None:
        """Renew the leases of the places that are held."""
        while True:
            await asyncio.sleep(_BEAT_S)
            for model_id, places in [*self._held.items()]:
                if places:
                    with suppress(OutageError, RedisError):
                        await self._store.run("model_beat", model_places(model_id)[:1], [self._lease_ms, *places])
