"""Decisions of persons about tool calls that wait for one, and the list of such calls.

A decision is committed by one script, and the first is the only one. Nothing but the request in Redis is kept for it.
"""

import logging
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalDecision, PendingApproval, digest_of_args
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ApprovalEvent
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import EVENTS, TASK_WAKE
from pentad.services.gateway.domain.approval import AskedDecision
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.pages import IndexEntry, Page, newest_first
from pentad.services.gateway.edge.problems import ProblemError, busy, doubtful, invalid, missing
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.approvals import (
    KeptRequest,
    call_of_request,
    kept_decision,
    kept_request,
    parts_of_index_entry,
    waits_in_index,
)
from pentad.shared.actors.mail import ApprovalMail
from pentad.shared.clipping import clip
from pentad.shared.errors import DamagedError, OutageError, RefusedWriteError
from pentad.shared.immutable import immutable
from pentad.shared.json_schema import OPEN_KEYWORDS, WrongSchema, compile_schema, schema_weight, shortened
from pentad.shared.keys import SMALL_EVENT, SessionKeys, TaskKeys, approvals, bell, events_kept
from pentad.shared.kinds import APPROVAL
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

_ARGS_LIMIT = 16 * 1024
"""Bytes of changed arguments that an event carries."""
_say = ThrottledLog(logging.getLogger(__name__))
_MISTAKES = 3
"""Mistakes in changed arguments that are told."""
_MOST_PIECES = 20
"""Pieces of the index that are read for one page."""


@immutable
class Decider:
    """Who decides about a call."""

    name: str
    """Name in events and transcripts: a token's user, else whose key or token it is."""
    user: str | None = None
    """User of the token; None for the holder of a key, and of a token without a user."""
    by_key: bool = False
    """Whether an API key of the tenant was sent, and no token."""


def decider(caller: Caller) -> Decider:
    """Return the sender of a request as who decides."""
    if caller.grant is None:
        return Decider(f"key:{caller.tenant}", by_key=True)
    return Decider(caller.grant.user or f"token:{caller.grant.session}", caller.grant.user)


class Approvals:
    """Lists calls that wait for a decision, and takes decisions."""

    def __init__(self, store: Store, queries: Queries, settings: Settings) -> None:
        self._store, self._queries = store, queries
        self._shards = settings.pentad_shards
        self._maxlen, self._ttl_s = settings.pentad_events_maxlen, settings.pentad_events_ttl_s

    async def decide(
        self, tenant: str, task: str, call: str, asked: AskedDecision, who: Decider, session: str | None = None
    ) -> ApprovalDecision:
        """Take a decision, once: the same again is the first one. ``session``: the only one that the caller may see.

        Raises ``ProblemError``: 404 for a call that waits for none, 409 for a different or a late decision and for
        other arguments than the caller has seen, 422 for arguments that do not fit the tool, 503.
        """
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            raise _unknown(task)
        try:
            if not await self._queries.is_visible(tenant, task, session):
                raise _unknown(task)
            request = await self._request(keys, call)
            if request is None:
                return await self._decided_before(keys, call, asked)
            if not request.may_decide(who.user, by_key=who.by_key):
                raise _not_an_approver(call, who)
            if asked.args is not None or (request.is_form and asked.approved):
                _check_arguments(asked.args or {}, request.parameters)
            return await self._commit(keys, call, asked, request, who.name)
        except UnreadableError as error:
            raise invalid(str(error)) from None
        except RefusedWriteError:
            raise
        except OutageError:
            raise busy("Redis is unavailable, and nothing was decided", outage=True) from None

    async def page(self, tenant: str, limit: int, after: IndexEntry | None, session: str | None) -> Page:
        """Return a page of the calls that wait for a decision, the one with the most time left first.

        ``session``: the only one whose calls are shown; a page may be short then, and go on.
        """
        items: list[dict[str, Any]] = []
        now, pieces = await self._store.clock(), 0
        async for piece in newest_first(self._store, lambda s: approvals(s, tenant), self._shards, after):
            for entry in piece:
                if entry.score <= now:
                    return Page(items, None)
                request = await self._waiting(tenant, entry.member)
                if request is not None and session in (None, request.command.session_id):
                    items.append(request.shown().model_dump(mode="json"))
                if len(items) == limit:
                    return Page(items, entry.cursor())
            pieces += 1
            if pieces == _MOST_PIECES:
                return Page(items, piece[-1].cursor())
        return Page(items, None)

    async def of_task(self, tenant: str, task: str) -> list[PendingApproval]:
        """Return the calls of a task that wait for a decision; none for a task that the tenant does not have."""
        keys = self._queries.task_keys(tenant, task)
        if keys is None:
            return []
        kept: list[bytes] = await self._store.call("HKEYS", keys.big)
        calls = [call for name in kept if (call := call_of_request(name.decode(errors="replace"))) is not None]
        index, found = approvals(keys.shard, tenant), list[PendingApproval]()
        for call in calls:
            waits = await self._store.call("ZSCORE", index, waits_in_index(task, call)) is not None
            if waits and (request := await self._request(keys, call)) is not None:
                found.append(request.shown())
        return found

    async def _waiting(self, tenant: str, entry: str) -> KeptRequest | None:
        """Return a call of the index; None for one that waits no more, whose task is gone, or that cannot be read."""
        task, call = parts_of_index_entry(entry)
        keys = self._queries.task_keys(tenant, task)
        try:
            return None if keys is None else await self._request(keys, call)
        except DamagedError as error:  # the others are shown all the same
            _say.error("damaged", "%s", error)
            return None

    async def _request(self, keys: TaskKeys, call: str) -> KeptRequest | None:
        raw = await self._store.call("HGET", keys.big, kept_request(call))
        if raw is None:
            return None
        try:
            return KeptRequest.model_validate_json(raw)
        except ValueError:
            raise DamagedError(f"a call of task {keys.task} that waits for a decision cannot be read") from None

    async def _decided_before(self, keys: TaskKeys, call: str, asked: AskedDecision) -> ApprovalDecision:
        """Return the decision about a call that waits no more, if it is the same; else say why there can be none."""
        kept: bytes | None = await self._store.call("HGET", keys.big, kept_decision(call))
        if kept is not None:
            same, said = kept.split(b" ", 1)
            first = ApprovalDecision.model_validate_json(said)
            # What the call was asked with is not kept: an approval without changes is the same as any without them.
            if same.decode() == asked.key("") or (asked.approved and asked.args is None and _is_plain(first)):
                return first
            raise _other(first)
        status = await self._store.call("HGET", keys.header, "status")
        if status is None and await self._queries.record(keys.tenant, keys.task) is None:
            raise _unknown(keys.task)
        raise _closed(keys.task, call, ended=status in (None, b"completed", b"failed", b"cancelled"))

    async def _commit(
        self, keys: TaskKeys, call: str, asked: AskedDecision, request: KeptRequest, by: str
    ) -> ApprovalDecision:
        """Commit a decision about a call, unless another was first. Return it, or the first one that says the same."""
        mail = _mail(call, asked, request, by)
        made = mail.to_decision(keys.task, rfc3339(await self._store.clock()))
        event = _event(made, request).to_json()
        maxlen = self._maxlen if len(event) <= SMALL_EVENT else events_kept(self._maxlen, len(event))
        session = SessionKeys(keys.shard, keys.tenant, request.command.session_id)
        index = approvals(keys.shard, keys.tenant)
        names = [keys.header, keys.calls, keys.big, keys.signals, keys.wake, session.events, bell(keys.shard), index]
        args: list[Argument] = [call, keys.actor, session.actor, kept_request(call), kept_decision(call)]
        args += [asked.args_digest, asked.key(request.args_digest), made.to_json(), mail.to_json()]
        args += [event, maxlen, self._ttl_s, waits_in_index(keys.task, call)]
        try:
            outcome, said, woken = await persist(lambda: self._store.run("approve", names, args))
        except RefusedWriteError:
            raise
        except OutageError:
            raise doubtful("Redis did not answer: decide again, it is decided once") from None
        if outcome == b"decided":
            metrics.published.labels(TASK_WAKE.name, APPROVAL).inc()
            metrics.published.labels(EVENTS.name, ApprovalEvent.__name__).inc()
            count_wake_ups(TASK_WAKE, woken)
            return made
        if outcome == b"same":
            return ApprovalDecision.model_validate_json(said)
        raise _refusal(outcome, said, keys.task, call)


def _mail(call: str, asked: AskedDecision, request: KeptRequest, by: str) -> ApprovalMail:
    """Return a decision as the task gets it, with arguments only where they are not those that the call has."""
    same = asked.args is None or (not request.is_form and digest_of_args(asked.args) == request.args_digest)
    edited = None if same else asked.args
    return ApprovalMail(tool_call_id=call, approved=asked.approved, by=by, reason=asked.reason, args=edited)


def _event(made: ApprovalDecision, request: KeptRequest) -> ApprovalEvent:
    """Return the event of a decision, with as much of changed arguments as an event carries."""
    return ApprovalEvent.from_fields(
        {
            **request.command.led_to(),
            "event_id": f"approval-{token_hex(16)}",
            "at": made.at,
            "causation_id": made.tool_call_id,
            "tool_call_id": made.tool_call_id,
            "approved": made.approved,
            "by": made.by,
            "args": None if made.args is None else _shown(made.args),
            "reason": made.reason,
        }
    )


def _check_arguments(args: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Check changed arguments by their tool's schema. Raises ``UnreadableError`` that says what is wrong."""
    if schema_weight(parameters, OPEN_KEYWORDS) is None:
        raise UnreadableError("args: this tool's schema is too large to check by: approve the call as it is, or refuse")
    try:
        validator = compile_schema(parameters, "the tool's schema")
    except WrongSchema as error:
        raise UnreadableError(f"args: they cannot be checked: {error}") from None
    mistakes = []
    for mistake in validator.iter_errors(dict(args)):
        where = ".".join(str(part) for part in mistake.instance_path)[:100]
        mistakes.append(shortened(f"{where}: {mistake.message}" if where else mistake.message))
        if len(mistakes) == _MISTAKES:
            break
    if mistakes:
        raise UnreadableError(f"args: {'; '.join(mistakes)}")


def _shown(args: dict[str, Any]) -> dict[str, Any] | str:
    text = to_json(args).decode()
    cut = clip(text, _ARGS_LIMIT)
    return args if cut is text else cut


def _is_plain(decision: ApprovalDecision) -> bool:
    return decision.approved and decision.args is None


def _other(first: ApprovalDecision) -> ProblemError:
    if first.by is None:
        return _refused(f"the time to decide about {first.tool_call_id} was over before: the call is not made")
    what = "refused" if not first.approved else "approved" if first.args is None else "approved with other arguments"
    return _refused(f"{first.tool_call_id} was {what} by {first.by} before: the first decision counts")


def _refusal(outcome: bytes, said: bytes, task: str, call: str) -> ProblemError:
    """Return why a decision was not committed. ``said``: the first decision, where that is the reason."""
    match outcome:
        case b"other":
            return _other(ApprovalDecision.model_validate_json(said))
        case b"expired":
            return _refused(f"the time to decide about {call} is over: the call is not made")
        case b"changed":
            return _refused(
                f"{call} was asked with other arguments than this args_digest's: read `GET /v1/approvals` again"
            )
        case b"none":
            return _unknown(task)
    return _closed(task, call, ended=outcome == b"ended")


def _closed(task: str, call: str, *, ended: bool) -> ProblemError:
    if ended:
        return _refused(f"task {task} has ended")
    return missing(f"task {task} has no call {call[:128]!r} that waits for an approval")


def _refused(detail: str) -> ProblemError:
    return ProblemError(409, detail, ErrorCode.NOT_ALLOWED)


def _not_an_approver(call: str, who: Decider) -> ProblemError:
    how = "an API key is not among them: send the token of one" if who.by_key else "this token's user is not among them"
    return ProblemError(403, f"only the `approvers` of {call} may decide about it, and {how}", ErrorCode.NOT_ALLOWED)


def _unknown(task: str) -> ProblemError:
    return missing(f"there is no task {task[:128]!r}", ErrorCode.UNKNOWN_TASK)
