"""`POST /v1/messages`: accept a message and, if requested, wait for the end of its turn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pentad.contracts.commands import InboundMessage
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.edge.http import answer, caller_of, read_body, scope_of, session_keys, wait_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid
from pentad.services.gateway.edge.schemas import RECEIPT, TURN, gives, json_body, query, ref
from pentad.services.gateway.tasks.message_intake import MessageIntake, new_message_id, new_session_id
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class MessageRoutes:
    """Routes of clients' messages."""

    def __init__(self, intake: MessageIntake, turns: TurnFollower, shards: int) -> None:
        self._intake, self._turns, self._shards = intake, turns, shards

    @operation(
        "POST",
        "/v1/messages",
        "Say something to the agent. With `wait`, 200 and the turn when it ends in time; a token must `read` for that",
        query("wait", "number", "seconds to wait for the turn's end; 600 at most are waited", minimum=0),
        body=json_body(ref("InboundMessage")),
        problems=(400, 409, 413, 415, 422, 429),
        right="send",
        _200=gives("the turn", TURN),
        _202=gives("accepted", RECEIPT),
    )
    async def post_message(self, request: "Request") -> "Response":
        """Return 202 with the ids, or 200 with the turn if it ends within ``?wait``."""
        wait_s = wait_of(request)
        if wait_s is not None:
            caller_of(request).check("read")
        body = await read_body(request)
        message, keys = message_of(request, body, self._shards)
        try:
            if wait_s is None:
                if body.get("message_id") is not None:
                    await self._intake.is_repeat(message, keys)
                return answer(receipt(keys, await self._intake.accept(message, keys)), 202)
            left_s = caller_of(request).left_s
            turn = await self._turns.wait(message, keys, wait_s if left_s is None else min(wait_s, left_s))
        except ProblemError as problem:
            problem.message_id = message.message_id
            raise
        if turn.end is None:
            return answer(receipt(keys, turn.message_id) | {"task_id": turn.task_id}, 202)
        return answer(turn.result(keys.session))


def message_of(request: "Request", body: Mapping[str, Any], shards: int) -> tuple[InboundMessage, SessionKeys]:
    """Return the message in a body, with an id, and the keys of its session.

    Raises ``ProblemError``: 400, 422, and 403 for a session or user that the caller's token is not for.
    """
    (tenant, _), grant = scope_of(request), caller_of(request).grant
    body = body if grant is None else grant.message(body)
    session = body.get("session_id") or new_session_id()
    if not isinstance(session, str):
        raise invalid("session_id: a text is expected")
    keys = session_keys(tenant, session, shards)
    try:
        return read_message(body, keys.tenant, keys.session, new_message_id()), keys
    except UnreadableError as error:
        raise invalid(str(error)) from None


def receipt(keys: SessionKeys, message_id: str) -> dict[str, Any]:
    """Return the ids that a client needs to follow a message."""
    return {"session_id": keys.session, "message_id": message_id}
