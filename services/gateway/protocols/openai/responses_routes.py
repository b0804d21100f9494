"""The routes of OpenAI's newer interface: responses are made, read again, cancelled and forgotten."""

from collections.abc import AsyncIterator
from time import time
from typing import TYPE_CHECKING

from pydantic_core import to_json

from pentad.contracts.events import TaskUsage
from pentad.services.gateway.edge.http import answer, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, gives, json_body, path, query
from pentad.services.gateway.protocols.openai.background_events import BackgroundEvents, read_after
from pentad.services.gateway.protocols.openai.chat_chunks import Out
from pentad.services.gateway.protocols.openai.chat_events import told_of
from pentad.services.gateway.protocols.openai.chat_turns import ChatNaming, ChatTurn, ChatTurns, failure_of
from pentad.services.gateway.protocols.openai.errors import OPENAI_REFUSAL
from pentad.services.gateway.protocols.openai.kept_responses import KeptResponse, KeptResponses
from pentad.services.gateway.protocols.openai.openai_routes import (
    asked_in,
    naming_of,
    read_with_data,
    session_header_of,
    waited,
    with_user,
)
from pentad.services.gateway.protocols.openai.responses_items import ResponseForm, ResponseItems, response_id
from pentad.services.gateway.protocols.openai.responses_request import (
    ResponseAsked,
    is_response_id,
    read_response,
)
from pentad.services.gateway.protocols.openai.turn_text import GrowingText
from pentad.services.gateway.tasks.event_stream import ALIVE, EventStream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_BODY = json_body({**ANY_OBJECT, "description": "the body of OpenAI's `POST /responses`"})
_SHOWN = gives("as OpenAI shows a response", ANY_OBJECT)


class ResponsesRoutes:
    """Routes of responses."""

    def __init__(self, turns: ChatTurns, kept: KeptResponses) -> None:
        self._turns, self._kept = turns, kept

    @operation(
        "POST",
        "/openai/v1/responses",
        "A turn, as clients of OpenAI's responses ask for it; with `stream`, server-sent events; with `background`, at "
        "once. `previous_response_id` or `conversation` says behind what it goes on",
        body=_BODY,
        problems=(400, 404, 409, 413, 415, 429),
        refusal=OPENAI_REFUSAL,
        _200=_SHOWN,
    )
    async def create_response(self, request: "Request") -> "Response | EventStream":
        """Begin a turn, and return its response."""
        tenant = tenant_of(request)
        body, data = await read_with_data(request)
        asked = await asked_in(lambda: read_response(body, data), data)
        turn = await self._turns.begin(tenant, with_user(request, asked.chat), _naming(request, asked))
        form = ResponseForm(
            turn.message_id,
            turn.keys.session,
            str(body["model"]),
            int(time()),
            asked.previous,
            asked.chat.metadata,
            asked.store,
            asked.background,
            asked.chat.schema is not None,
            turn.goes_on,
        )
        headers = session_header_of(turn)
        try:
            if asked.store:
                form = await self._kept.keep(tenant, form)
            if asked.chat.stream:
                kind = BackgroundEvents if asked.background else ResponseEvents
                return EventStream(self._turns.closing, kind(self._turns, turn, form), headers=headers)
            if asked.background:
                made = answer(form.shown("queued", []))
            else:
                made = answer(await waited(request, self._turns.closing, whole_response(self._turns, turn, form)))
                await self._turns.delivered(turn)
        except BaseException:
            turn.stream.close()
            raise
        turn.stream.close()
        made.headers.update(headers)
        return made

    @operation(
        "GET",
        "/openai/v1/responses/{response}",
        "A response that was stored, as far as it is made; with `stream`, the events of one in the background",
        path("response"),
        query("stream", "boolean", "whether its events are answered, as server-sent events"),
        query("starting_after", "integer", "`sequence_number` of the last event seen", minimum=0),
        problems=(400, 404),
        refusal=OPENAI_REFUSAL,
        _200=_SHOWN,
    )
    async def get_response(self, request: "Request") -> "Response | EventStream":
        """Return a response, or the events of one that is made in the background."""
        tenant = tenant_of(request)
        known = await self._known(request, tenant)
        if not _is_stream(request):
            return answer(await self._shown(tenant, known))
        after = read_after(request.query_params.get("starting_after"))
        if not known.background:
            raise invalid("stream: only a response with `background` can be followed again; read it without `stream`")
        form = known.form()
        turn = await self._turns.taken_up(tenant, form)
        return EventStream(self._turns.closing, BackgroundEvents(self._turns, turn, form, after))

    @operation(
        "DELETE",
        "/openai/v1/responses/{response}",
        "Forget the id of a response. Its session keeps what was said: to erase that, erase the session",
        path("response"),
        problems=(404,),
        refusal=OPENAI_REFUSAL,
        _200=_SHOWN,
    )
    async def delete_response(self, request: "Request") -> "Response":
        """Forget a response."""
        tenant = tenant_of(request)
        known = await self._known(request, tenant)
        await self._kept.forget(tenant, known.message_id)
        await self._turns.forget_response(tenant, response_id(known.message_id))
        return answer({"id": response_id(known.message_id), "object": "response", "deleted": True})

    @operation(
        "POST",
        "/openai/v1/responses/{response}/cancel",
        "Cancel the turn of a response",
        path("response"),
        problems=(404,),
        refusal=OPENAI_REFUSAL,
        _200=_SHOWN,
    )
    async def cancel_response(self, request: "Request") -> "Response":
        """Cancel the turn of a response, and return it; one that has ended stays as it is."""
        tenant = tenant_of(request)
        known = await self._known(request, tenant)
        await self._turns.cancel(tenant, known)
        return answer(await self._shown(tenant, known))

    async def _known(self, request: "Request", tenant: str) -> KeptResponse:
        name = request.path_params["response"]
        known = await self._kept.read(tenant, name) if is_response_id(name) else None
        if known is None:
            raise missing("response: there is none of this id, or it was not stored, or long ago")
        return known

    async def _shown(self, tenant: str, known: KeptResponse) -> Out:
        """Return a response, made of the events of its turn that are kept."""
        told, events = await self._turns.told(tenant, known)
        items = ResponseItems(known.form())
        for piece in events:
            items.after(piece)
        failure = failure_of(told.end)
        used = await self._turns.used_by(tenant, told)
        items.end(told, used)
        return items.shown(told, used, "" if failure is None else failure.detail)


class ResponseEvents:
    """The events of a response. Closing them before the end is to stop the turn, unless the gateway stops."""

    def __init__(self, turns: ChatTurns, turn: ChatTurn, form: ResponseForm) -> None:
        self._turns, self._turn, self._told, self._form = turns, turn, told_of(turn), form
        self._items, self._used = ResponseItems(form), TaskUsage()
        self._is_over = False

    def close(self) -> None:
        """Close the subscription, and cancel the turn if its client has left before the end."""
        self._turn.stream.close()
        if not self._is_over and not self._turns.closing.is_set():
            self._turns.leave(self._turn, self._told)
        self._is_over = True

    async def blocks(self) -> AsyncIterator[bytes]:
        """Return the events until the turn ends."""
        yield b"".join(map(_block, self._items.begin()))
        failure = ""
        try:
            async for pieces in self._turns.follow(self._turn, self._told):
                if self._told.end is not None:  # kept before it is told: a client may leave when it has a call
                    await self._keep_end()
                yield b"".join(_block(each) for piece in pieces for each in self._items.after(piece)) or ALIVE
        except ProblemError as problem:
            failure = problem.detail
        await self._keep_end()
        ended = failure_of(self._told.end)
        failure = failure or ("" if ended is None else ended.detail)
        yield b"".join(map(_block, self._items.end(self._told, self._used, failure)))
        await self._turns.delivered(self._turn)

    async def _keep_end(self) -> None:
        """Keep where the conversation stands, once, and note the turn's usage."""
        if not self._is_over:
            self._is_over = True
            self._used = await _ended(self._turns, self._turn, self._told, self._form)


async def whole_response(turns: ChatTurns, turn: ChatTurn, form: ResponseForm) -> Out:
    """Return the response once the turn has ended."""
    told, items = told_of(turn), ResponseItems(form)
    async for pieces in turns.follow(turn, told):
        for piece in pieces:
            items.after(piece)
    failure = failure_of(told.end)
    used = await _ended(turns, turn, told, form)
    items.end(told, used)
    return items.shown(told, used, "" if failure is None else failure.detail)


async def _ended(turns: ChatTurns, turn: ChatTurn, told: GrowingText, form: ResponseForm) -> TaskUsage:
    """Keep where the conversation stands, and return the turn's usage."""
    await turns.keep(turn, told)
    if form.store:
        await turns.keep_response(turn.keys, response_id(turn.message_id), told)
    return await turns.used(turn, told)


def _naming(request: "Request", asked: ResponseAsked) -> ChatNaming:
    """Return the names under which a response was asked for."""
    given = naming_of(request, asked.chat)
    if asked.previous is not None:
        return ChatNaming("response", asked.previous, given.key)
    return given if asked.conversation is None else ChatNaming("session", asked.conversation, given.key)


def _is_stream(request: "Request") -> bool:
    """Return whether the events of a response are asked for. Raises ``ProblemError`` (400)."""
    text = request.query_params.get("stream", "false")
    if text not in ("true", "false"):
        raise invalid("stream: true or false is expected")
    return text == "true"


def _block(event: Out) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event))
