"""The last writes of a service that stops, when Redis may not take them any more."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from redis.exceptions import RedisError

from pentad.shared.errors import OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)

_PATIENCE_S = 1.0
_LOOK_S = 0.05


async def leave(store: Store, what: str, work: Coroutine[Any, Any, None]) -> bool:
    """Do something that should be done before the end; False when Redis did not serve for it.

    It is given up then, after a second: what is held goes to others when its leases end, as after a kill.
    """
    loop = asyncio.get_running_loop()
    doing, limit = loop.create_task(work), loop.time() + _PATIENCE_S
    try:
        while not doing.done():
            await asyncio.wait({doing}, timeout=_LOOK_S)
            if store.away and loop.time() > limit:
                break
    finally:
        await cancel_all([doing])
    try:
        if not doing.cancelled():
            doing.result()
            return True
        trouble = store.trouble or "it does not answer"
    except (OutageError, RedisError, OSError) as error:
        trouble = str(error)
    log.warning("%s is left as it is, for leases to end: %s", what, trouble)
    return False
