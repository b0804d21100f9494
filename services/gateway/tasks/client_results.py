"""Results of tools that clients run: the first result of a call is the only one, written by one script."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic_core import from_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import TOOL_TEXT_LIMIT, ToolResultEvent
from pentad.contracts.streams import EVENTS, TASK_WAKE
from pentad.services.gateway.domain.client_result import SentResult
from pentad.services.gateway.edge.problems import ProblemError, doubtful, missing
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.client_tools import CLIENT_CALL, kept_client_result
from pentad.shared.actors.headers import read_session
from pentad.shared.actors.mail import ResultMail
from pentad.shared.clipping import clip
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.keys import SessionKeys, TaskKeys, bell, events_kept
from pentad.shared.kinds import RESULT
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store

_READ = ("session", "open", "correlation", "traceparent", "parent")
"""Fields of a task's header that the event of a result is made of."""


class ClientResults:
    """Accepts the results of calls that clients make themselves."""

    def __init__(self, store: Store, queries: Queries, settings: Settings) -> None:
        self._store, self._queries = store, queries
        self._maxlen, self._ttl_s = settings.pentad_events_maxlen, settings.pentad_events_ttl_s

    async def accept(self, tenant: str, task: str, call: str, sent: SentResult, session: str | None = None) -> bool:
        """Accept a result, once: the same again changes nothing. ``session``: the only one that the caller may see.

        Return whether it is new.

        Raises ``ProblemError``: 404 for a call that no client makes, 409 for another result than the first and for a
        task that has ended, 503.
        """
        keys = self._queries.task_keys(tenant, task)
        if keys is None or not await self._queries.is_visible(tenant, task, session):
            raise _unknown(task)
        header = dict(zip(_READ, await self._store.call("HMGET", keys.header, *_READ), strict=True))
        whose = SessionKeys(keys.shard, tenant, read_session(header["session"] or b""))
        outcome, tool = sent.outcome, _tool_of(call, header["open"])
        shown = clip(outcome.text, TOOL_TEXT_LIMIT)
        ref = call if shown is not outcome.text else None
        envelope = _envelope(keys, whose, call, header) | {"at": await self._store.now()}
        told = ToolResultEvent.of(envelope, call, tool, replace(outcome, text=shown), ref).to_json()
        names = [keys.header, keys.calls, keys.big, keys.signals, keys.wake, whose.events, bell(keys.shard)]
        args: list[Argument] = [call, keys.actor, whose.actor, kept_client_result(call), sent.digest]
        args += [ResultMail.of(call, outcome, ref).to_json(), told, events_kept(self._maxlen, len(told)), self._ttl_s]
        args += [] if ref is None else [ref, outcome.for_model]
        try:
            done, woken = await persist(lambda: self._store.run("client_result", names, args))
        except RefusedWriteError:
            raise
        except OutageError:
            raise doubtful("Redis did not answer: send the result again, it is taken once") from None
        if done == b"taken":
            metrics.tool_calls.labels(CLIENT_CALL, outcome.counted_as).inc()
            metrics.published.labels(EVENTS.name, ToolResultEvent.__name__).inc()
            metrics.published.labels(TASK_WAKE.name, RESULT).inc()
            count_wake_ups(TASK_WAKE, woken)
        elif done != b"same":
            raise await self._refusal(keys, call, done)
        return bool(done == b"taken")

    async def _refusal(self, keys: TaskKeys, call: str, done: bytes) -> ProblemError:
        """Return why a result is not taken."""
        if done == b"other":
            return ProblemError(409, f"{call}: another result was sent before, and it counts", ErrorCode.NOT_ALLOWED)
        if done == b"ended" or (done == b"none" and await self._queries.record(keys.tenant, keys.task) is not None):
            return ProblemError(409, f"task {keys.task} has ended", ErrorCode.NOT_ALLOWED)
        if done == b"none":
            return _unknown(keys.task)
        return missing(f"task {keys.task} has no call {call[:128]!r} that waits for its client")


def _tool_of(call: str, open_calls: bytes | None) -> str:
    """Return the tool of an open call; '' for a call that is not open."""
    calls: Sequence[Sequence[str]] = from_json(open_calls) if open_calls else ()
    return next((each[1] for each in calls if each[0] == call), "")


def _envelope(
    keys: TaskKeys, session: SessionKeys, call: str, header: Mapping[str, bytes | None]
) -> dict[str, str | None]:
    """Return the envelope of the event that tells of a result, without its time."""
    given = {name: (header[name] or b"").decode(errors="replace") or None for name in _READ[2:]}
    return {
        "event_id": f"{call}.result",
        "tenant_id": keys.tenant,
        "session_id": session.session,
        "task_id": keys.task,
        "correlation_id": given["correlation"],
        "causation_id": call,
        "traceparent": given["traceparent"],
        "parent_task_id": given["parent"],
    }


def _unknown(task: str) -> ProblemError:
    return missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
