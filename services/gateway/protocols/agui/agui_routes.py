"""The routes of AG-UI: a run is a turn of a session, and a client that was cut off takes it up where it was."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from pentad.contracts.ids import is_external_id
from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.approval import AskedDecision
from pentad.services.gateway.domain.client_result import SentResult
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.http import caller_of, read_body, scope_of, session_keys
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, bad, invalid, missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, TEXT, gives, json_body, path, query
from pentad.services.gateway.protocols.agui.decided_runs import DecidedRun, DecidedRuns
from pentad.services.gateway.protocols.agui.run_events import RunEvents
from pentad.services.gateway.protocols.agui.run_input import (
    Interrupted,
    RunInput,
    answers_of,
    decision_of,
    read_run_input,
    text_of_answer,
)
from pentad.services.gateway.protocols.agui.translation import AguiRun
from pentad.services.gateway.tasks.approvals import Approvals, Decider, decider
from pentad.services.gateway.tasks.client_results import ClientResults
from pentad.services.gateway.tasks.event_stream import EventStream
from pentad.services.gateway.tasks.message_routes import message_of
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_stream import TurnStream, TurnStreams
from pentad.shared.events.feed import START
from pentad.shared.events.subscription import BadCursorError, parse_cursor
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request

_APPEARS_S, _LOOK_S = 3.0, 0.1
"""Seconds in which the message of a run appears that a client asks for, and between two looks for it."""
_STREAM = gives("server-sent events of AG-UI 1.0, each with `id`, the cursor", TEXT, "text/event-stream")


class AguiRoutes:
    """Routes of AG-UI 1.0. ``shards``: of the system."""

    def __init__(
        self,
        streams: TurnStreams,
        turns: TurnFollower,
        queries: Queries,
        approvals: Approvals,
        results: ClientResults,
        decided: DecidedRuns,
        shards: int,
    ) -> None:
        self._streams, self._turns, self._queries, self._approvals = streams, turns, queries, approvals
        self._results, self._decided, self._shards = results, decided, shards

    @operation(
        "POST",
        "/agui",
        "Run a turn as AG-UI 1.0: the last message of the user, or `resume` for what a run before waits for. "
        "`threadId` is the session, `runId` the id of the message. A token needs `send` and `read`, and `approve` for "
        "decisions",
        body=json_body({**ANY_OBJECT, "description": "RunAgentInput of AG-UI 1.0"}),
        problems=(400, 403, 404, 409, 413, 415, 422, 429),
        right="send",
        _200=_STREAM,
    )
    async def run(self, request: "Request") -> EventStream:
        """Begin a run, and return its events until it ends or waits for a person."""
        caller_of(request).check("read")
        body = await read_body(request)
        try:
            asked = read_run_input(body)
            if asked.resume:
                return await self._resume(request, asked)
            if asked.ends_with_results:
                return await self._go_on(request, asked)
            results = asked.results()
            message, keys = message_of(request, asked.message() | {"session_id": asked.thread_id}, self._shards)
        except UnreadableError as error:
            raise invalid(str(error)) from None
        await self._hand_over(keys, await self._waited_for(keys, results))
        made = AguiRun(asked.thread_id, asked.run_id, TurnTracker(asked.run_id), asked.messages)
        return self._answer(request, made, keys, await self._turns.begin(message, keys))

    async def _go_on(self, request: "Request", asked: RunInput) -> EventStream:
        """Hand over the results of the client's tools, and return what the task does then.

        Raises ``UnreadableError``.
        """
        tenant, session = scope_of(request)
        if session not in (None, asked.thread_id):
            raise missing("the thread has no such call")
        keys = session_keys(tenant, asked.thread_id, self._shards)
        results = asked.results()
        known, waited_for = await self._decided.read(keys, asked.run_id), await self._waited_for(keys, results)
        if known is None and not waited_for:
            raise missing("messages: no tool call of the thread waits for one of these results")
        stream = await self._streams.open(keys, None)
        try:
            task = waited_for[-1][0] if known is None else known.task_id
            begun, _ = await self._begin_decided(keys, asked.run_id, task, stream.position)
            await self._hand_over(keys, waited_for)
        finally:
            stream.close()
        made = _decided_run(asked.thread_id, asked.run_id, begun, asked.messages)
        made.sent = frozenset(call for call, _ in results)
        return self._answer(request, made, keys, await self._streams.open(keys, begun.begins.encode()))

    async def _waited_for(
        self, keys: SessionKeys, results: Sequence[tuple[str, SentResult]]
    ) -> list[tuple[str, str, SentResult]]:
        """Return the results that are waited for, each with its task and call; others are of tools that ran here."""
        waits = await self._queries.client_calls(keys) if results else {}
        return [(waits[call], call, sent) for call, sent in results if call in waits]

    async def _hand_over(self, keys: SessionKeys, results: Sequence[tuple[str, str, SentResult]]) -> None:
        for task, call, sent in results:
            await self._results.accept(keys.tenant, task, call, sent, keys.session)

    async def _resume(self, request: "Request", asked: RunInput) -> EventStream:
        """Answer what a run before waits for, and return what its task does then. Results of the client's tools that
        come along are handed over first. Raises ``UnreadableError``.
        """
        (task, answers), results = answers_of(asked.resume or ()), asked.results()
        if not answers[0][0].call:
            said = {"content": text_of_answer(answers[0][1]), "task_id": task}
            body = asked.forwarded() | said | {"message_id": asked.run_id, "session_id": asked.thread_id}
            message, keys = message_of(request, body, self._shards)
            await self._hand_over(keys, await self._waited_for(keys, results))
            made = AguiRun(asked.thread_id, asked.run_id, TurnTracker(asked.run_id), asked.messages)
            return self._answer(request, made, keys, await self._turns.begin(message, keys))
        caller = caller_of(request)
        caller.check("approve")
        (tenant, session), decisions = scope_of(request), [(each, decision_of(entry)) for each, entry in answers]
        if await self._queries.session_of(tenant, task) != asked.thread_id or session not in (None, asked.thread_id):
            raise missing("resume: the thread has no such run")
        keys = session_keys(tenant, asked.thread_id, self._shards)
        stream = await self._streams.open(keys, None)
        try:
            begun, is_new = await self._begin_decided(keys, asked.run_id, task, stream.position)
            await self._hand_over(keys, await self._waited_for(keys, results))
            await self._decide(keys, asked.run_id, decisions, decider(caller), session, forget=is_new)
        finally:
            stream.close()
        made = _decided_run(asked.thread_id, asked.run_id, begun, asked.messages)
        return self._answer(request, made, keys, await self._streams.open(keys, begun.begins.encode()))

    async def _begin_decided(self, keys: SessionKeys, run: str, task: str, position: bytes) -> tuple[DecidedRun, bool]:
        """Return what a run is that begins with a decision, and whether it is new. Raises ``ProblemError`` (409)."""
        mine = DecidedRun(task_id=task, begins=position.decode())
        begun = await self._decided.keep(keys, run, mine)
        if begun.task_id != task:
            raise ProblemError(409, "runId: another run has this id: give each run one of its own")
        return begun, begun == mine

    async def _decide(
        self,
        keys: SessionKeys,
        run: str,
        decisions: Sequence[tuple[Interrupted, AskedDecision]],
        who: Decider,
        session: str | None,
        *,
        forget: bool,
    ) -> None:
        """Take the decisions. ``forget``: a run is not kept of which none was taken."""
        for number, (each, decision) in enumerate(decisions):
            try:
                await self._approvals.decide(keys.tenant, each.task, each.call, decision, who, session)
            except ProblemError:
                if forget and number == 0:
                    await self._decided.forget(keys, run)
                raise

    @operation(
        "GET",
        "/agui/runs/{run}",
        "Take up a run again: all messages, then its events after `after` (without it, all that are kept)",
        path("run"),
        query("threadId", "string", "session of the run"),
        query("after", "string", "`id` of the last event seen"),
        problems=(400, 403, 404, 422),
        right="read",
        _200=_STREAM,
    )
    async def resume_stream(self, request: "Request") -> EventStream:
        """Return the events of a run that has begun."""
        thread, run = request.query_params.get("threadId", ""), request.path_params["run"]
        (tenant, _), grant = scope_of(request), caller_of(request).grant
        if not is_external_id(run):
            raise missing("there is no such run")
        if grant is not None:
            grant.check_session(thread)
        keys = session_keys(tenant, thread, self._shards)
        try:
            after = parse_cursor(request.query_params.get("after") or request.headers.get("last-event-id") or "0")
        except BadCursorError as error:
            raise bad(str(error)) from None
        decided = await self._decided.read(keys, run)
        if decided is not None:
            stream = await self._streams.open(keys, decided.begins.encode())
            return self._answer(request, _decided_run(thread, run, decided), keys, stream, after)
        if not await self._appears(keys, run):
            raise missing("there is no such run in this thread, or it was long ago")
        made = AguiRun(thread, run, TurnTracker(run))
        return self._answer(request, made, keys, await self._streams.open(keys, START), after)

    async def _appears(self, keys: SessionKeys, run: str) -> bool:
        """Return whether the run's message is known; one that was sent just now may still be on its way."""
        limit = monotonic() + _APPEARS_S
        while not await self._turns.knows(keys, run):
            if monotonic() >= limit:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    def _answer(
        self, request: "Request", run: AguiRun, keys: SessionKeys, stream: TurnStream, after: bytes | None = None
    ) -> EventStream:
        source = RunEvents(run, keys, stream, self._queries, self._approvals, after)
        return EventStream(self._streams.closing, source, caller_of(request).left_s)


def _decided_run(thread: str, run: str, begun: DecidedRun, base: Sequence[Any] = ()) -> AguiRun:
    """Return a run that a decision has begun, before its first event."""
    return AguiRun(thread, run, TurnTracker("", task_id=begun.task_id), base, since_ms=begun.begins_ms)
