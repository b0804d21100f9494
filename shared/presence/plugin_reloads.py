"""Requests that tool-workers import their plug-ins anew, whose turn it is to do so, and what each has made of it."""

from contextlib import suppress

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.envelope import Contract
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.keys import DAY_S, PLUGIN_RELOAD, PLUGIN_REPORTS, PLUGIN_TURN
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import Store

REPORT_EVERY_S = 2.0
"""Seconds between two reports of a worker."""
TURN_MS = 15_000
"""Milliseconds after which the turn of a worker that was killed is over."""
MAX_ERROR_CHARS = 2_000
"""Characters that are kept of why plug-ins could not be imported."""
_REPORTS_TTL_S = 60
_MAX_AGE_MS = 10_000
"""Milliseconds after which a report is ignored. One from as far ahead was written before the clock stepped back."""
_REQUEST_TTL_S = 30 * DAY_S


@immutable
class ReloadRequest:
    """The last request. A word, not a number: a failover may lose a request, and the next would have its number."""

    word: str
    at: int
    """Time of the request, in ms of Redis's clock."""


class WorkerPlugins(Contract):
    """The plug-ins of one tool-worker, as it reports them."""

    at: int
    """Time of the report, in ms of Redis's clock."""
    modules: tuple[str, ...]
    word: str = ""
    """Word of the last request that the worker has carried out; '' for none."""
    running: bool = False
    """Whether the worker imports its plug-ins at this moment."""
    error: str | None = None
    """Why the last request failed here: what was imported before is in use."""


def passing_over_outages() -> suppress:
    """Return a context in which a store that does not answer, or refuses, is passed over."""
    return suppress(OutageError, RedisError)


async def ask_for_reload(store: Store) -> ReloadRequest:
    """Ask all tool-workers to import their plug-ins anew. Raises ``OutageError``."""
    request = ReloadRequest(random_hex(16), await store.clock())
    await store.call("HSET", PLUGIN_RELOAD, "word", request.word, "at", request.at)
    await store.call("EXPIRE", PLUGIN_RELOAD, _REQUEST_TTL_S)
    return request


async def last_request(store: Store) -> ReloadRequest | None:
    """Return the last request; None when there was none lately. Raises ``OutageError``."""
    word, at = await store.call("HMGET", PLUGIN_RELOAD, "word", "at")
    return ReloadRequest(word.decode(), int(at)) if word and at and at.isdigit() else None


async def report_plugins(store: Store, worker: str, report: WorkerPlugins) -> None:
    """Report a worker's plug-ins, and remove reports of workers that were killed. Raises ``OutageError``."""
    await store.call("HSET", PLUGIN_REPORTS, worker, report.to_json())
    await store.call("EXPIRE", PLUGIN_REPORTS, _REPORTS_TTL_S)
    flat = await store.call("HGETALL", PLUGIN_REPORTS)
    old = [name for name, value in zip(flat[::2], flat[1::2], strict=True) if _read(value, report.at) is None]
    if old:
        await store.call("HDEL", PLUGIN_REPORTS, *old)


async def withdraw_report(store: Store, worker: str) -> None:
    """Remove the report of a worker that stops. Raises ``OutageError``."""
    await store.call("HDEL", PLUGIN_REPORTS, worker)


async def reported_plugins(store: Store) -> dict[str, WorkerPlugins]:
    """Return the plug-ins of each tool-worker that has reported lately, by its name. Raises ``OutageError``."""
    flat, now = await store.call("HGETALL", PLUGIN_REPORTS), await store.clock()
    read = {name.decode(): _read(value, now) for name, value in zip(flat[::2], flat[1::2], strict=True)}
    return {name: report for name, report in sorted(read.items()) if report is not None}


async def take_turn(store: Store, worker: str) -> bool:
    """Take the turn to import plug-ins, or keep it; return whether the worker has it. Raises ``OutageError``."""
    return bool(await store.run("turn", [PLUGIN_TURN], [worker, TURN_MS]))


async def leave_turn(store: Store, worker: str) -> None:
    """Let the next worker have the turn. Raises ``OutageError``."""
    await store.run("turn", [PLUGIN_TURN], [worker, 0])


def _read(value: bytes, now: int) -> WorkerPlugins | None:
    """Read a report; None for one that is too old or of a newer version."""
    try:
        report = WorkerPlugins.model_validate_json(value)
    except ValidationError:
        return None
    return report if abs(now - report.at) < _MAX_AGE_MS else None
