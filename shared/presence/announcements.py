"""Announcements of running processes: the models that they use, their health, what an archiver waits for."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count

from pydantic import BaseModel, ConfigDict, ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.contracts.models import ModelHealth, ModelState
from pentad.shared.errors import OutageError
from pentad.shared.keys import IN_USE, MEMORY_WAITS, MODEL_HEALTH
from pentad.shared.store.store import Store

_EVERY_S = 2.0
"""Seconds between two announcements of a process."""
IN_USE_TTL_S = 6
"""Seconds that a model in use is announced for. A key that ends later was written before Redis's clock stepped back."""
_WAIT_TTL_S = 6
"""Seconds that an archiver's wait is announced for. A key that ends later was written before the clock stepped back."""
_MAX_REASON_CHARS = 1000
"""Characters of the reason of a wait that are kept."""
_HEALTH_TTL_S = 60
"""Seconds after the last report after which all reports of models' health are removed."""
_MAX_REPORT_AGE_MS = 10_000
"""Milliseconds after which a report is ignored. One from as far ahead was written before the clock stepped back."""
_BEATS_PER_SWEEP = 30
"""Reports of a process after which it removes those of processes that were killed."""
_FROM_BEST_TO_WORST: tuple[ModelState, ...] = ("ok", "failing", "probing", "open")
"""States of a model's health, the best first."""


class ModelInUse(BaseModel):
    """The model that a process uses. Nothing in it is secret."""

    model_config = ConfigDict(frozen=True)

    service: str
    model: str
    place: str | None
    """The address at which the model is asked; None for a model in the process itself."""


async def announce_model(store: Store, consumer: str, now: Callable[[], ModelInUse]) -> None:
    """Publish the model in use every two seconds, and remove it at the end. Outages do no harm."""
    key = f"{IN_USE}{consumer}"
    try:
        while True:
            with suppress(OutageError, RedisError):
                await store.call("SET", key, now().model_dump_json(), "EX", IN_USE_TTL_S)
            await asyncio.sleep(_EVERY_S)
    finally:
        with suppress(OutageError, RedisError):
            await store.call("DEL", key)


class HealthReport(Contract):
    """The health of models, as one process reports it."""

    at: int
    """The time of the report, in ms of the server's clock."""
    models: tuple[ModelHealth, ...]


async def report_health(store: Store, consumer: str, look: Callable[[int], Sequence[ModelHealth]]) -> None:
    """Report the health of models every two seconds, and remove the report at the end. Outages do no harm.

    ``look``: returns the health of each model, and is given the server's time in ms.
    """
    try:
        for beat in count():
            with suppress(OutageError, RedisError):
                now = await store.clock()
                said = HealthReport(at=now, models=tuple(look(now)))
                await store.call("HSET", MODEL_HEALTH, consumer, said.to_json())
                await store.call("EXPIRE", MODEL_HEALTH, _HEALTH_TTL_S)
                if beat % _BEATS_PER_SWEEP == 0:
                    await _sweep(store, now)
            await asyncio.sleep(_EVERY_S)
    finally:
        with suppress(OutageError, RedisError):
            await store.call("HDEL", MODEL_HEALTH, consumer)


async def _sweep(store: Store, now: int) -> None:
    flat = await store.call("HGETALL", MODEL_HEALTH)
    old = [name for name, value in zip(flat[::2], flat[1::2], strict=True) if _read(value, now) is None]
    if old:
        await store.call("HDEL", MODEL_HEALTH, *old)


async def reported(store: Store) -> dict[str, list[ModelHealth]]:
    """Return the health of each model, by id, in each process that has reported lately."""
    return recent_health(await store.call("HVALS", MODEL_HEALTH), await store.clock())


def recent_health(values: Iterable[bytes], now: int) -> dict[str, list[ModelHealth]]:
    """Return the health of each model from the values of the hash, without old reports. ``now``: server time in ms."""
    reports = [report for value in values if (report := _read(value, now)) is not None]
    found: dict[str, list[ModelHealth]] = {}
    for health in (health for report in reports for health in report.models):
        found.setdefault(health.id, []).append(health)
    return found


def worst(health: Sequence[ModelHealth]) -> ModelHealth:
    """Return the worst health that processes report of a model, with what any of them has learned about its server, and
    the smallest window that any of them knows."""
    found = max(health, key=lambda each: _FROM_BEST_TO_WORST.index(each.state))
    learned = tuple(dict.fromkeys(line for each in health for line in each.learned))
    window = min((each.context_tokens for each in health if each.context_tokens is not None), default=None)
    return found.model_copy(update={"learned": learned, "context_tokens": window})


def _read(value: bytes, now: int) -> HealthReport | None:
    """Read the report of a process; None for one that is too old or of a newer version."""
    try:
        report = HealthReport.model_validate_json(value)
    except ValidationError:
        return None
    return report if abs(now - report.at) < _MAX_REPORT_AGE_MS else None


async def announce_wait(store: Store, look: Callable[[], str | None]) -> None:
    """Publish why an archiver waits, for ever; of several reasons the last is kept. Outages do no harm.

    ``look``: returns the reason; None while the archiver waits for nothing.
    """
    while True:
        if (reason := look()) is not None:
            store.send("SET", MEMORY_WAITS, reason[:_MAX_REASON_CHARS].encode("utf-8", "replace"), "EX", _WAIT_TTL_S)
        await asyncio.sleep(_EVERY_S)


async def memory_wait(store: Store) -> str | None:
    """Return the reason for which an archiver waits; None while no archiver waits. Raises ``OutageError``."""
    reason, left_s = await asyncio.gather(store.call("GET", MEMORY_WAITS), store.call("TTL", MEMORY_WAITS))
    return None if reason is None or left_s > _WAIT_TTL_S else reason.decode("utf-8", "replace")
