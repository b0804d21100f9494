"""Holds of a process's event loop: measured, logged, and published for `pentad doctor`.

All work of a process runs in one loop. Code that holds it stops every tenant of that process, so the delay is measured
all the time, and a long one is kept where the doctor looks.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from time import monotonic, process_time

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.keys import LOOP_HOLDS
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)

LOGGED_DELAY_S = 1.0
"""Seconds of delay from which on a hold is logged and shown by the doctor."""
HOLD_TTL_MS = 86_400_000
"""Milliseconds for which a hold is kept."""
_EVERY_S = 0.02
"""Seconds between two measurements."""
_PUBLISH_S = 1.0
"""Seconds between two looks for holds that are not published yet."""
_LONGER_COUNTS_MS = 3_600_000
"""Milliseconds for which a shorter hold does not replace a longer one."""
_MAX_UNPUBLISHED = 16


class LoopHold(Contract):
    """One hold of a loop."""

    who: str
    """The services of the process, in words."""
    seconds: float
    at: int
    """Server time in ms at which the hold was published: up to a second or two after its end."""


@immutable
class _UnpublishedHold:
    who: str
    seconds: float


_unpublished: deque[_UnpublishedHold] = deque(maxlen=_MAX_UNPUBLISHED)
"""Holds of this process that no service of it has published yet."""


async def watch_loop(who: str, *, gives_way: bool = False) -> None:
    """Measure the delay of this loop fifty times a second, for ever. ``who``: names the process in the log.

    ``gives_way``: the process has a low priority, so that it is late where others are busy: only what it worked in a
    delay is told then.
    """
    delay, held = metrics.loop_delay_seconds.labels(), metrics.loop_held_seconds.labels()
    while True:
        due, worked = monotonic() + _EVERY_S, process_time()
        await asyncio.sleep(_EVERY_S)
        late = max(0.0, monotonic() - due)
        busy = min(late, process_time() - worked)
        delay.observe(late)
        held.observe(busy)
        if (busy if gives_way else late) >= LOGGED_DELAY_S:
            said = "the event loop of %s was held for %.1f s, of which it worked %.1f s: nobody was served meanwhile"
            log.warning(said, who, late, busy)
            _unpublished.append(_UnpublishedHold(who, late))


async def keep_telling_holds(store: Store) -> None:
    """Publish the holds of this process, for ever. Of several services in it the first that looks publishes one."""
    while True:
        await asyncio.sleep(_PUBLISH_S)
        if _unpublished:
            hold = _unpublished.popleft()
            try:
                await _tell(store, hold)
            except (OutageError, RedisError):
                _unpublished.append(hold)


async def _tell(store: Store, hold: _UnpublishedHold) -> None:
    now = await store.clock()
    kept = _read(await store.call("HGET", LOOP_HOLDS, hold.who) or b"")
    if kept is not None and now - kept.at < _LONGER_COUNTS_MS and kept.seconds > hold.seconds:
        return
    told = LoopHold(who=hold.who, seconds=round(hold.seconds, 1), at=now)
    await store.call("HSET", LOOP_HOLDS, hold.who, told.to_json())
    await store.call("EXPIRE", LOOP_HOLDS, HOLD_TTL_MS // 1000)


def held_lately(values: Iterable[bytes], now: int) -> tuple[LoopHold, ...]:
    """Return the hold of each service that counts, the longest first. ``now``: server time in ms."""
    holds = [hold for value in values if (hold := _read(value)) is not None and now - hold.at < HOLD_TTL_MS]
    return tuple(sorted(holds, key=lambda hold: -hold.seconds))


def _read(value: bytes) -> LoopHold | None:
    try:
        return LoopHold.model_validate_json(value)
    except ValidationError:
        return None
