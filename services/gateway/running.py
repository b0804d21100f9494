"""`POST /v1/instructions/{name}/run`: a message that names an instruction, and what its turn comes to."""

from typing import TYPE_CHECKING

from pentad.contracts.instructions import Instruction
from pentad.services.gateway.domain.frames import UnreadableError, read_run
from pentad.services.gateway.domain.instruction_run import run_of
from pentad.services.gateway.domain.waited_turn import TurnFilter, WaitedTurn
from pentad.services.gateway.edge.http import answer, read_body, wait_of
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.following_turn import begin_turn, wait_for_turn
from pentad.services.gateway.instruction_routes import name_of
from pentad.services.gateway.messages import message_of, receipt
from pentad.services.gateway.parts import Parts
from pentad.services.gateway.sse import EventStream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

WAIT_S = 60.0
"""How long a run is waited for when nobody says."""


async def run_instruction(parts: Parts, request: "Request") -> "Response | EventStream":
    """200 with the run at its end, 202 when time is up; or the turn's events as they come, when they are accepted."""
    name, wait_s = name_of(request), wait_of(request)
    body = await read_body(request)
    instruction = (await parts.book.known(name)).get(name)
    if instruction is None:
        raise missing(f"there is no instruction {name}")
    try:
        message, keys = message_of(parts, request, read_run(body, name))
    except UnreadableError as error:
        raise invalid(str(error)) from None
    try:
        if "text/event-stream" in request.headers.get("accept", ""):
            stream = await begin_turn(parts, message, keys, TurnFilter(message.message_id or ""))
            return EventStream(parts, keys, stream)
        turn = await wait_for_turn(parts, message, keys, WAIT_S if wait_s is None else wait_s)
    except ProblemError as problem:
        problem.message_id = message.message_id
        raise
    if turn.end is None:
        return answer(receipt(keys, turn.message_id) | {"task_id": turn.task_id, "instruction": name}, 202)
    run = run_of(name, turn, turn.end, keys.session, await _checked(instruction, turn))
    return answer(run.told())


async def _checked(instruction: Instruction, turn: WaitedTurn) -> str | None:
    """The JSON value of the answer; None where it is of another form than the instruction that is known here asks for.

    The runner has checked it too, maybe against an older version of the instruction.
    """
    completed = turn.end is not None and turn.end.outcome == "completed"
    if instruction.output_schema is None or turn.answer is None or not completed:
        return None
    from pentad.shared.instructions.output import Output

    try:
        return await Output(instruction.output_schema).read(turn.answer)
    except ValueError:
        return None
