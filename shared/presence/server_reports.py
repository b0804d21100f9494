"""How MCP servers do, as each tool-worker reports it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.contracts.tool_servers import ServerCondition, ServerReport
from pentad.shared.errors import OutageError
from pentad.shared.keys import SERVER_REPORTS
from pentad.shared.store.store import Store

_EVERY_S = 2.0
"""Seconds between two reports of a worker."""
_TTL_S = 60
"""Seconds after the last report after which all are removed."""
_MAX_AGE_MS = 10_000
"""Milliseconds after which a report is ignored. One from as far ahead was written before the clock stepped back."""
_BEATS_PER_SWEEP = 30
"""Reports of a worker after which it removes those of workers that were killed."""
_FROM_BEST_TO_WORST: tuple[ServerCondition, ...] = (
    *("ready", "connecting", "signed_out", "no_secret", "failing", "refused"),
)


class WorkerServers(Contract):
    """The servers of one tool-worker, as it reports them."""

    at: int
    """The time of the report, in ms of Redis's clock."""
    servers: tuple[ServerReport, ...]


async def report_servers(store: Store, consumer: str, look: Callable[[], Sequence[ServerReport]]) -> None:
    """Report how servers do every two seconds, and remove the report at the end. Outages do no harm.

    A worker without servers reports nothing.
    """
    reported = False
    try:
        for beat in count():
            with suppress(OutageError, RedisError):
                reported = await _report(store, consumer, tuple(look()), reported, beat % _BEATS_PER_SWEEP == 0)
            await asyncio.sleep(_EVERY_S)
    finally:
        if reported:
            with suppress(OutageError, RedisError):
                await store.call("HDEL", SERVER_REPORTS, consumer)


async def _report(store: Store, consumer: str, servers: tuple[ServerReport, ...], reported: bool, sweeps: bool) -> bool:
    """Report servers; return whether there is a report of this worker now."""
    if not servers:
        if reported:
            await store.call("HDEL", SERVER_REPORTS, consumer)
        return False
    now = await store.clock()
    await store.call("HSET", SERVER_REPORTS, consumer, WorkerServers(at=now, servers=servers).to_json())
    await store.call("EXPIRE", SERVER_REPORTS, _TTL_S)
    if sweeps:
        flat = await store.call("HGETALL", SERVER_REPORTS)
        old = [name for name, value in zip(flat[::2], flat[1::2], strict=True) if _read(value, now) is None]
        if old:
            await store.call("HDEL", SERVER_REPORTS, *old)
    return True


async def reported_servers(store: Store) -> dict[str, list[ServerReport]]:
    """Return the reports of each server, by name, of each worker that has reported lately."""
    return recent_reports(await store.call("HVALS", SERVER_REPORTS), await store.clock())


def recent_reports(values: Iterable[bytes], now: int) -> dict[str, list[ServerReport]]:
    """Return the reports of each server from the values of the hash, without old ones. ``now``: Redis's time in ms."""
    found: dict[str, list[ServerReport]] = {}
    for report in (report for value in values if (report := _read(value, now)) is not None):
        for server in report.servers:
            found.setdefault(server.name, []).append(server)
    return found


def worst_report(reports: Sequence[ServerReport]) -> ServerReport:
    """Return the report of the worker in which a server does worst."""
    return max(reports, key=lambda each: _FROM_BEST_TO_WORST.index(each.condition))


def _read(value: bytes, now: int) -> WorkerServers | None:
    """Read the report of a worker; None for one that is too old or of a newer version."""
    try:
        report = WorkerServers.model_validate_json(value)
    except ValidationError:
        return None
    return report if abs(now - report.at) < _MAX_AGE_MS else None
