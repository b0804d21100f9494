"""Reports of running services: which there are, of which version, what each serves, and how much it has in work."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import rfc3339
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.keys import PROCESSES
from pentad.shared.presence.totals import tell_totals
from pentad.shared.store.store import Store

_EVERY_S = 2.0
"""Seconds between two reports of a service."""
_TTL_S = 60
"""Seconds after the last report after which all are removed."""
SILENT_MS = 6_000
"""Milliseconds without a report after which a service counts as silent: it was killed, paused or cut off."""
_KEPT_MS = 60_000
"""Milliseconds for which the report of a silent service is kept."""
_BEATS_PER_SWEEP = 15
"""Reports of a service after which it removes those of services that were killed."""
_MAX_QUEUES = 20
"""Queues that a report names."""
_MAX_MACHINE_CHARS = 64


@immutable
class ServiceWork:
    """The work of a service at one moment."""

    under_way: int = 0
    """Entries that it handles, or connections that a gateway has open."""
    queues: tuple[str, ...] = ()
    """Queues of tool calls that it serves."""


class ProcessReport(Contract):
    """One running service, as it reports itself. Nothing in it is secret."""

    at: int
    """Time of the report, in ms of Redis's clock."""
    service: str
    release: str
    """Release of Pentad that it runs."""
    machine: str
    pid: int
    started_at: str
    """Time of the first report: RFC 3339."""
    under_way: int
    queues: tuple[str, ...] = ()

    def alive(self, now: int) -> bool:
        """Whether the service has reported lately, at this time in ms of Redis's clock."""
        return abs(now - self.at) <= SILENT_MS


async def report_process(store: Store, service: str, name: str, look: Callable[[], ServiceWork]) -> None:
    """Report a service every two seconds, with what its process has counted, and remove the report at the end.

    ``name``: the service's name with a random part. Outages do no harm.
    """
    started = ""
    try:
        for beat in count():
            with suppress(OutageError, RedisError):
                now = await store.clock()
                started = started or rfc3339(now)
                await _report(store, name, _about(service, now, started, look()))
                await tell_totals(store)
                if beat % _BEATS_PER_SWEEP == 0:
                    await _sweep(store, now)
            await asyncio.sleep(_EVERY_S)
    finally:
        with suppress(OutageError, RedisError):
            await tell_totals(store)
            await store.call("HDEL", PROCESSES, name)


def _about(service: str, now: int, started: str, work: ServiceWork) -> ProcessReport:
    return ProcessReport(
        at=now,
        service=service,
        release=_release(),
        machine=socket.gethostname()[:_MAX_MACHINE_CHARS],
        pid=os.getpid(),
        started_at=started,
        under_way=work.under_way,
        queues=work.queues[:_MAX_QUEUES],
    )


async def _report(store: Store, name: str, report: ProcessReport) -> None:
    await store.call("HSET", PROCESSES, name, report.to_json())
    await store.call("EXPIRE", PROCESSES, _TTL_S)


async def _sweep(store: Store, now: int) -> None:
    flat = await store.call("HGETALL", PROCESSES)
    kept = {name.encode() for name, _ in recent_processes(flat, now)}
    old = [name for name in flat[::2] if name not in kept]
    if old:
        await store.call("HDEL", PROCESSES, *old)


def recent_processes(flat: Iterable[bytes], now: int) -> list[tuple[str, ProcessReport]]:
    """Return the services of the hash with their names, sorted, without those that are silent for long or unreadable.

    ``now``: Redis's time in ms. A report from far ahead was written before the clock stepped back.
    """
    parts = iter(flat)
    read = [(name.decode(errors="replace"), _read(value)) for name, value in zip(parts, parts, strict=False)]
    return sorted((name, each) for name, each in read if each is not None and abs(now - each.at) <= _KEPT_MS)


def _read(value: bytes) -> ProcessReport | None:
    try:
        return ProcessReport.model_validate_json(value)
    except ValidationError:
        return None


@cache
def _release() -> str:
    try:
        return version("pentad")
    except PackageNotFoundError:
        return "unknown"
