"""The routes of sessions: the list, and the messages and events of one session."""

from typing import TYPE_CHECKING

from pentad.services.gateway.edge.http import answer, answer_with_page, caller_of, page_of, session_of, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import bad, missing
from pentad.services.gateway.edge.schemas import LIST, SESSION, TEXT, TURN_LEFT, gives, page, path, query
from pentad.services.gateway.tasks.event_stream import EventStream, SessionBlocks
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.shared.events.subscription import BadCursorError, parse_cursor

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class SessionRoutes:
    """Routes of the sessions of the caller's tenant."""

    def __init__(self, queries: Queries, streams: TurnStreams, shards: int) -> None:
        self._queries, self._streams, self._shards = queries, streams, shards

    @operation("GET", "/v1/sessions", "Sessions, newest first", *LIST, problems=(422,), _200=gives("", page(SESSION)))
    async def list_sessions(self, request: "Request") -> "Response":
        """Return the tenant's sessions, the one with the newest message first."""
        limit, after = page_of(request)
        return answer_with_page(await self._queries.sessions(tenant_of(request), limit, after))

    @operation(
        "GET",
        "/v1/sessions/{session}/messages",
        "The last messages of a session, oldest first",
        path("session"),
        problems=(400, 404),
        right="read",
        _200=gives("at most 200", page(TURN_LEFT)),
    )
    async def list_messages(self, request: "Request") -> "Response":
        """Return the last messages of a session, oldest first."""
        keys = session_of(request, self._shards)
        if not await self._queries.knows_session(keys):
            raise missing("there is no such session")
        return answer({"items": await self._queries.messages(keys), "next": None})

    @operation(
        "GET",
        "/v1/sessions/{session}/events",
        "A session's events as they come, after the header Last-Event-ID or `after`, else from the oldest kept",
        path("session"),
        query("after", "string", "`id` of the last event seen"),
        query("token", "string", "a token of POST /v1/tokens, where there is no header: an EventSource can send none"),
        problems=(400,),
        right="read",
        _200=gives("server-sent events", TEXT, "text/event-stream"),
    )
    async def get_events(self, request: "Request") -> EventStream:
        """Return a stream of the events after ``Last-Event-ID`` or ``?after``, else from the oldest event on."""
        keys = session_of(request, self._shards)
        text = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        try:
            cursor = parse_cursor(text)
        except BadCursorError as error:
            raise bad(str(error)) from None
        stream, left_s = await self._streams.open(keys, cursor), caller_of(request).left_s
        return EventStream(self._streams.closing, SessionBlocks(keys, stream), left_s)
