"""`POST /v1/messages`: accept a message and, when asked, wait for its turn's end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pentad.contracts.commands import InboundMessage
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.edge.http import answer, read_body, tenant_of, wait_of
from pentad.services.gateway.edge.problems import ProblemError, invalid
from pentad.services.gateway.following_turn import wait_for_turn
from pentad.services.gateway.parts import Parts, new_session_id
from pentad.services.gateway.tasks.message_intake import new_message_id
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def post_message(parts: Parts, request: "Request") -> "Response":
    """202 with the ids, or after ``?wait`` 200 with the turn."""
    wait_s, body = wait_of(request), await read_body(request)
    message, keys = message_of(parts, request, body)
    try:
        if wait_s is None:
            if body.get("message_id") is not None:
                await parts.accepting.is_repeat(message, keys)
            return answer(receipt(keys, await parts.accepting.accept(message, keys)), 202)
        turn = await wait_for_turn(parts, message, keys, wait_s)
    except ProblemError as problem:
        problem.message_id = message.message_id
        raise
    if turn.end is None:
        return answer(receipt(keys, turn.message_id) | {"task_id": turn.task_id}, 202)
    return answer(turn.result(keys.session))


def message_of(parts: Parts, request: "Request", body: Mapping[str, Any]) -> tuple[InboundMessage, SessionKeys]:
    """The message that a body says, with an id, and its session. Raises ``ProblemError`` (400, 422)."""
    session = body.get("session_id") or new_session_id()
    if not isinstance(session, str):
        raise invalid("session_id: a text is expected")
    keys = parts.session(tenant_of(request), session)
    try:
        return read_message(body, keys.tenant, keys.session, new_message_id()), keys
    except UnreadableError as error:
        raise invalid(str(error)) from None


def receipt(keys: SessionKeys, message_id: str) -> dict[str, Any]:
    """What a client needs to come back to a message."""
    return {"session_id": keys.session, "message_id": message_id}
