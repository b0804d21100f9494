"""The routes of OpenAI's protocol: completions of chats, and the list of models."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.http import BODY_LIMIT, answer, object_of_body, read_bytes, tenant_of, too_large
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import ANY_OBJECT, gives, json_body, path
from pentad.services.gateway.operator.completion_routes import (
    completion_of,
    in_time_for,
    unless_gone,
    until_closing,
    well_begun,
)
from pentad.services.gateway.operator.model_calls import ModelCallClient
from pentad.services.gateway.operator.runnables import KnownRunnables
from pentad.services.gateway.protocols.openai.chat_chunks import ChatForm
from pentad.services.gateway.protocols.openai.chat_events import ChatEvents, whole_answer
from pentad.services.gateway.protocols.openai.chat_places import TURN_LIMIT_S
from pentad.services.gateway.protocols.openai.chat_request import (
    AGENT,
    REQUEST_LIMIT,
    UTILITY,
    ChatAsked,
    read_chat,
    without_data,
)
from pentad.services.gateway.protocols.openai.chat_turns import ChatNaming, ChatTurn, ChatTurns
from pentad.services.gateway.protocols.openai.errors import OPENAI_REFUSAL
from pentad.services.gateway.protocols.openai.plain_chat import PlainEvents, PlainForm, read_plain
from pentad.services.gateway.tasks.event_stream import EventStream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

SESSION_HEADER = "x-pentad-session"
"""Header that names the session, in requests and in answers."""
_CHAT_HEADERS = ("x-pentad-chat", "x-openwebui-chat-id")
"""Headers that name a chat whose requests all have the whole conversation."""
_KEY_HEADERS = ("idempotency-key", "x-openwebui-message-id")
"""Headers that name a request."""
Asked = TypeVar("Asked")
_USER_HEADER = "x-openwebui-user-id"
_TASK_HEADER = "x-pentad-task"
"""Header that says for what a chat UI asks, where it is no message of the user."""
_CHAT_BODY = json_body({**ANY_OBJECT, "description": "the body of OpenAI's `POST /chat/completions`"})


class OpenAIRoutes:
    """Routes of OpenAI's protocol."""

    def __init__(self, turns: ChatTurns, calls: ModelCallClient, known: KnownRunnables) -> None:
        self._turns, self._calls, self._known = turns, calls, known

    @operation(
        "GET",
        "/openai/v1/models",
        "The models of OpenAI's protocol: the agent, its instructions and graphs, and the plain chat model",
        refusal=OPENAI_REFUSAL,
        _200=gives("as OpenAI lists models", ANY_OBJECT),
    )
    async def list_models(self, request: "Request") -> "Response":
        """Return the names that a client may give as model."""
        tenant_of(request)
        return answer({"object": "list", "data": [_model(name) for name in await self._models()]})

    @operation(
        "GET",
        "/openai/v1/models/{model:path}",
        "One model of OpenAI's protocol",
        path("model"),
        problems=(404,),
        refusal=OPENAI_REFUSAL,
        _200=gives("as OpenAI shows a model", ANY_OBJECT),
    )
    async def get_model(self, request: "Request") -> "Response":
        """Return one model."""
        tenant_of(request)
        name = request.path_params["model"]
        if name not in await self._models():
            raise missing(f"model: there is no {name[:100]!r}; see GET /openai/v1/models")
        return answer(_model(name))

    async def _models(self) -> list[str]:
        known = (await self._known.read()).known
        named = sorted(name for name, each in known.items() if each.source != "built_in")
        return [AGENT, *(f"{AGENT}/{name}" for name in named), UTILITY]

    @operation(
        "POST",
        "/openai/v1/chat/completions",
        "A turn of a conversation, as OpenAI's clients ask for it; with `stream`, server-sent events. "
        "`X-Pentad-Session` names the session, in the answer too; without it the conversation is found by its texts",
        body=_CHAT_BODY,
        problems=(400, 404, 409, 413, 415, 429),
        refusal=OPENAI_REFUSAL,
        _200=gives("a completion, or its chunks", ANY_OBJECT),
    )
    async def complete_chat(self, request: "Request") -> "Response | EventStream":
        """Begin a turn, or ask the plain model, and return the answer."""
        tenant = tenant_of(request)
        body, data = await read_with_data(request)
        if body.get("model") == UTILITY or _is_for_ui(request.headers.get(_TASK_HEADER, "")):
            return await self._plain(request, tenant, body)
        asked = with_user(request, await asked_in(lambda: read_chat(body, data), data))
        turn = await self._turns.begin(tenant, asked, naming_of(request, asked))
        form = ChatForm(turn.message_id, turn.keys.session, str(body["model"]), int(time()))
        headers = session_header_of(turn)
        if asked.stream:
            return EventStream(self._turns.closing, ChatEvents(self._turns, turn, form), headers=headers)
        try:
            made = answer(await waited(request, self._turns.closing, whole_answer(self._turns, turn, form)))
        finally:
            turn.stream.close()
        made.headers.update(headers)
        await self._turns.delivered(turn)
        return made

    async def _plain(self, request: "Request", tenant: str, body: Mapping[str, Any]) -> "Response | EventStream":
        """Ask the plain model."""
        try:
            asked = read_plain(body)
        except UnreadableError as error:
            raise invalid(str(error)) from None
        options = body.get("stream_options")
        wants_usage = isinstance(options, dict) and options.get("include_usage") is True
        form, closing = PlainForm(f"chatcmpl-{token_hex(16)}", int(time()), wants_usage), self._turns.closing
        tools = [tool for tool in asked.tools if not isinstance(tool, str)]
        async with AsyncExitStack() as stack:
            call = await stack.enter_async_context(self._calls.opened(tenant, None, asked, tools))
            if not asked.stream:
                last = await waited(request, closing, in_time_for(call.last(), asked.timeout_s))
                return answer(form.whole(completion_of(last)))
            first = well_begun(await waited(request, closing, in_time_for(call.read(), asked.timeout_s)))
            return EventStream(closing, PlainEvents(call, first, form, asked.timeout_s, stack.pop_all()))


async def read_with_data(request: "Request") -> tuple[dict[str, Any], list[bytes]]:
    """Return the JSON object in the body, and the base64 of its long data: URLs. Raises ``ProblemError``."""
    raw, data = without_data(await read_bytes(request, REQUEST_LIMIT))
    if len(raw) > BODY_LIMIT:
        raise too_large(BODY_LIMIT)
    return object_of_body(raw), data


async def asked_in(read: Callable[[], Asked], data: Sequence[bytes]) -> Asked:
    """Return what a request asks for. Raises ``ProblemError``. ``data``: what is to be decoded for it."""
    try:
        return await asyncio.to_thread(read) if data else read()
    except UnreadableError as error:
        raise invalid(str(error)) from None


def with_user(request: "Request", asked: ChatAsked) -> ChatAsked:
    """Return what is asked for with the user that a header names, if the body names none."""
    user = request.headers.get(_USER_HEADER)
    return replace(asked, user=user) if asked.user is None and user and is_external_id(user) else asked


async def waited(request: "Request", closing: asyncio.Event, reading: Awaitable[Asked]) -> Asked:
    """Wait for an answer, unless the client goes away or the gateway stops. Raises ``ProblemError``."""
    try:
        async with asyncio.timeout(TURN_LIMIT_S):
            return await unless_gone(request, until_closing(closing, reading))
    except TimeoutError:
        raise ProblemError(504, "the turn goes on: send the same request again, and it is not begun again") from None


def session_header_of(turn: ChatTurn) -> dict[str, str]:
    """Return the header that names the session of a turn; none for a name that no header can have."""
    return {SESSION_HEADER: turn.keys.session} if turn.keys.session.isascii() else {}


def naming_of(request: "Request", asked: ChatAsked) -> ChatNaming:
    """Return the names under which a request was sent. Raises ``ProblemError`` (400) for what is no id."""
    key = next((value for name in _KEY_HEADERS if (value := request.headers.get(name))), None)
    session = request.headers.get(SESSION_HEADER) or asked.session
    chat = next((value for name in _CHAT_HEADERS if (value := request.headers.get(name))), None)
    for name, value in ((SESSION_HEADER, session), ("a chat's id", chat)):
        if value is not None and not is_external_id(value):
            raise ProblemError(400, f"{name} has {EXTERNAL_ID_RULE}")
    if session:
        return ChatNaming("session", session, key)
    return ChatNaming("chat", chat, key) if chat else ChatNaming(key=key)


def _is_for_ui(task: str) -> bool:
    """Return whether a chat UI asks for itself: for a title, tags, or what to ask next. A UI that fills in nothing
    leaves the header empty, or its placeholder as it is."""
    return bool(task) and not task.startswith("{{")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "pentad"}
