"""How long the event loop of a process was held: measured, logged, and told to whoever runs `pentad doctor`.

All that a process serves runs in one loop. Code that does not let go of it stops every tenant of that process, so the
delay is measured all the time, and a long one is kept where the doctor looks.
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

LONG_S = 1.0
"""A delay that is logged and told to the doctor."""
TOLD_MS = 86_400_000
"""How long a hold is told of."""
_EVERY_S = 0.02
_TELL_S = 1.0
_LONGER_COUNTS_MS = 3_600_000
"""For so long a shorter hold does not take the place of a longer one."""
_MOST_UNTOLD = 16


class LoopHold(Contract):
    """One hold of a loop."""

    who: str
    """The service, or the services, of the process."""
    seconds: float
    at: int
    """Server time in ms at which it was told: up to a second or two after its end."""


@immutable
class _Untold:
    who: str
    seconds: float


_untold: deque[_Untold] = deque(maxlen=_MOST_UNTOLD)
"""Holds of this process that no service of it has told yet."""


async def watch_loop(who: str) -> None:
    """Measure the delay of this loop fifty times a second, for ever. ``who``: names the process in the log."""
    delay, held = metrics.loop_delay_seconds.labels(), metrics.loop_held_seconds.labels()
    while True:
        due, worked = monotonic() + _EVERY_S, process_time()
        await asyncio.sleep(_EVERY_S)
        late = max(0.0, monotonic() - due)
        busy = min(late, process_time() - worked)
        delay.observe(late)
        held.observe(busy)
        if late >= LONG_S:
            said = "the event loop of %s was held for %.1f s, of which it worked %.1f s: nobody was served meanwhile"
            log.warning(said, who, late, busy)
            _untold.append(_Untold(who, late))


async def keep_telling_holds(store: Store) -> None:
    """Keep the holds of this process where the doctor looks, for ever. Of several services in it the first one does."""
    while True:
        await asyncio.sleep(_TELL_S)
        if _untold:
            hold = _untold.popleft()
            try:
                await _tell(store, hold)
            except (OutageError, RedisError):
                _untold.append(hold)


async def _tell(store: Store, hold: _Untold) -> None:
    now = await store.clock()
    kept = _read(await store.call("HGET", LOOP_HOLDS, hold.who) or b"")
    if kept is not None and now - kept.at < _LONGER_COUNTS_MS and kept.seconds > hold.seconds:
        return
    told = LoopHold(who=hold.who, seconds=round(hold.seconds, 1), at=now)
    await store.call("HSET", LOOP_HOLDS, hold.who, told.to_json())
    await store.call("EXPIRE", LOOP_HOLDS, TOLD_MS // 1000)


def held_lately(values: Iterable[bytes], now: int) -> tuple[LoopHold, ...]:
    """Of each service the hold that counts, the longest first. ``now``: server time in ms."""
    holds = [hold for value in values if (hold := _read(value)) is not None and now - hold.at < TOLD_MS]
    return tuple(sorted(holds, key=lambda hold: -hold.seconds))


def _read(value: bytes) -> LoopHold | None:
    try:
        return LoopHold.model_validate_json(value)
    except ValidationError:
        return None
