"""`POST /v1/messages`: accept a message and, if requested, wait for the end of its turn."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pentad.contracts.commands import InboundMessage
from pentad.contracts.ids import is_external_id
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.edge.http import answer, caller_of, read_body, scope_of, session_keys, wait_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import RECEIPT, TURN, gives, json_body, path, query, ref
from pentad.services.gateway.tasks.message_intake import MessageIntake, new_message_id, new_session_id
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_states import TurnStates
from pentad.shared.keys import SessionKeys

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class MessageRoutes:
    """Routes of clients' messages."""

    def __init__(self, intake: MessageIntake, turns: TurnFollower, states: TurnStates, shards: int) -> None:
        self._intake, self._turns, self._states, self._shards = intake, turns, states, shards

    @operation(
        "POST",
        "/v1/messages",
        "Say something to the agent. With `wait`, 200 and the turn when it ends in time; a token must `read` for that, "
        "and for a `callback_url`",
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

    @operation(
        "GET",
        "/v1/runs/{message_id}",
        "The turn of a message: how far it is, its answer or why it has none, and the tool calls that wait for a "
        "decision. With `wait`, as soon as it ends",
        path("message_id"),
        query(
            "session_id",
            "string",
            "session of the message, which must be given, as `POST /v1/messages` has answered it",
        ),
        query("wait", "number", "seconds to wait for the turn's end; 600 at most are waited", minimum=0),
        problems=(400, 404, 422),
        right="read",
        _200=gives("the turn", ref("TurnState")),
    )
    async def get_run(self, request: "Request") -> "Response":
        """Return the state of a message's turn."""
        (tenant, _), caller, wait_s = scope_of(request), caller_of(request), wait_of(request)
        session, message_id = request.query_params.get("session_id"), request.path_params["message_id"]
        if session is None:
            raise invalid("session_id: the session of the message is needed, as `POST /v1/messages` has answered it")
        if caller.grant is not None:
            caller.grant.check_session(session)
        keys = session_keys(tenant, session, self._shards)
        if not is_external_id(message_id) or not await self._intake.was_accepted(keys, message_id):
            raise missing("the session has no such message, or it was sent longer ago than ids are kept (a day)")
        left_s = wait_s or 0.0 if caller.left_s is None else min(wait_s or 0.0, caller.left_s)
        return answer((await self._states.waited(keys, message_id, left_s)).model_dump(mode="json", exclude_none=True))


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
