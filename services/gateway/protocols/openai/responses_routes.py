"""The routes of OpenAI's newer interface: responses are made, read again, cancelled and forgotten."""

from collections.abc import AsyncIterator
from time import time
from typing import TYPE_CHECKING

from pydantic_core import to_json

from pentad.contracts.events import TaskUsage
from pentad.services.gateway.edge.http import answer, tenant_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, gives, json_body, path
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
                return EventStream(self._turns.closing, ResponseEvents(self._turns, turn, form), headers=headers)
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
        "A response that was stored, as far as it is made",
        path("response"),
        problems=(404,),
        refusal=OPENAI_REFUSAL,
        _200=_SHOWN,
    )
    async def get_response(self, request: "Request") -> "Response":
        """Return a response."""
        tenant = tenant_of(request)
        return answer(await self._shown(tenant, await self._known(request, tenant)))

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
        self._items = ResponseItems(form)
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
                yield b"".join(_block(each) for piece in pieces for each in self._items.after(piece)) or ALIVE
        except ProblemError as problem:
            failure = problem.detail
        self._is_over = True
        used = await _ended(self._turns, self._turn, self._told, self._form)
        ended = failure_of(self._told.end)
        failure = failure or ("" if ended is None else ended.detail)
        yield b"".join(map(_block, self._items.end(self._told, used, failure)))
        await self._turns.delivered(self._turn)


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


def _block(event: Out) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), to_json(event))
