"""How models do, as the processes that ask them say every two seconds."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.contracts.models import ModelHealth, ModelState
from pentad.shared.errors import OutageError
from pentad.shared.keys import MODEL_HEALTH
from pentad.shared.store.store import Store

_EVERY_S = 2.0
_OLD_MS = 10_000
"""What a process said so long ago says nothing of now; nor what it said so far ahead, before the clock stepped back."""
_TTL_S = 60
_SWEEP = 30
"""So many beats after one another the words of processes that were killed are removed."""


_BAD: tuple[ModelState, ...] = ("ok", "failing", "probing", "open")


class HealthReport(Contract):
    """What one process says."""

    at: int
    """Server time in ms."""
    models: tuple[ModelHealth, ...]


async def keep_reporting(store: Store, consumer: str, look: Callable[[int], Sequence[ModelHealth]]) -> None:
    """Say it every two seconds, and take it back at the end. Outages harm nothing. ``look`` is given the time in ms."""
    try:
        for beat in count():
            with suppress(OutageError, RedisError):
                now = await store.clock()
                said = HealthReport(at=now, models=tuple(look(now)))
                await store.call("HSET", MODEL_HEALTH, consumer, said.to_json())
                await store.call("EXPIRE", MODEL_HEALTH, _TTL_S)
                if beat % _SWEEP == 0:
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
    """How each model does, by id, in each process that has told lately."""
    return told_lately(await store.call("HVALS", MODEL_HEALTH), await store.clock())


def told_lately(values: Iterable[bytes], now: int) -> dict[str, list[ModelHealth]]:
    """What the hash's values say of each model, without what was said too long ago. ``now``: server time in ms."""
    reports = [report for value in values if (report := _read(value, now)) is not None]
    found: dict[str, list[ModelHealth]] = {}
    for health in (health for report in reports for health in report.models):
        found.setdefault(health.id, []).append(health)
    return found


def worst(health: Sequence[ModelHealth]) -> ModelHealth:
    """Of what several processes say of a model, the worst; with what any of them has learned about its server."""
    found = max(health, key=lambda each: _BAD.index(each.state))
    learned = tuple(dict.fromkeys(line for each in health for line in each.learned))
    return found if learned == found.learned else found.model_copy(update={"learned": learned})


def _read(value: bytes, now: int) -> HealthReport | None:
    """What a process said; None when that was at another time, or is of a newer version."""
    try:
        report = HealthReport.model_validate_json(value)
    except ValidationError:
        return None
    return report if abs(now - report.at) < _OLD_MS else None
