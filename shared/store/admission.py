"""Requirements of a Redis before Pentad uses it: checked when a service starts, and watched."""

import asyncio
import logging
import re
from contextlib import suppress
from pathlib import Path

from pentad.shared.addresses import redis_files
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.keys import CLUSTER, PROBE
from pentad.shared.store.server import advice, look, refusal_at_start, unfit
from pentad.shared.store.store import Store, guarded
from pentad.shared.telemetry import ThrottledLog


async def agree(store: Store, shards: int) -> None:
    """Write the number of shards down, or compare it. Raises ``SettingsError`` when it differs."""
    await guarded("shards", store.call, "HSETNX", CLUSTER, "shards", shards)
    found = int(await guarded("shards", store.call, "HGET", CLUSTER, "shards"))
    if found != shards:
        raise SettingsError(
            f"PENTAD_SHARDS is {shards}, but the data in Redis was made with {found}: set it to {found}"
        )


_say = ThrottledLog(logging.getLogger(__name__))

_WATCH_S, _UNSEEN_S = 15.0, 3600.0
"""A server that does not let us see is not asked often: it keeps a list of what it refused."""
_CALL = re.compile(r"call\('([A-Z]+)'(?:, '([A-Z]+)')?")
_WITH_SUBCOMMAND = frozenset({"XGROUP", "XINFO"})


async def admit(store: Store, who: str) -> None:
    """Wait until Redis answers and can be worked with, logging the reason (hazard 11).

    Raises ``SettingsError`` for a problem that another REDIS_URL solves; problems of the server are waited for.
    """
    _find_files(store.url)
    await guarded(who, _admit, store)


def _find_files(url: str) -> None:
    for option, path in redis_files(url).items():
        if not Path(path).exists():
            raise SettingsError(f"REDIS_URL is wrong: its option {option} names {path}, which is not there")


async def _admit(store: Store) -> None:
    server = await look(store.answers)
    refusal = refusal_at_start(server)
    if refusal is not None:
        raise SettingsError(refusal)
    why = unfit(server)
    store.unfit(why)
    if why is not None:
        raise OutageError(why)
    if (told := advice(server)) is not None:
        _say.warning("advice", "%s", told)
    await store.call("DEL", PROBE)  # which a replica does not do
    denied = await store.run("may", [PROBE], _commands(store))
    if denied:
        names = b", ".join(denied).decode()
        raise store.refused(f"the user of REDIS_URL may not run {names}: allow it (docs/redis.md)")
    await store.clock()


def _commands(store: Store) -> list[str]:
    """Every command that a script of ours runs."""
    found = {m.groups() for script in store.scripts.values() for m in _CALL.finditer(script.body)}
    return sorted({f"{name} {sub}" if name in _WITH_SUBCOMMAND else name for name, sub in found})


async def keep_watching(store: Store) -> None:
    """Look again now and then, for ever: another server may be behind the address, or another setting in it."""
    pause = _WATCH_S
    while True:
        await asyncio.sleep(pause)
        with suppress(OutageError):
            server = await look(store.answers)
            why, pause = unfit(server), _WATCH_S if server.policy else _UNSEEN_S
            if why is not None:
                _say.error("unfit", "%s", why)
            store.unfit(why)
