"""The routes of instructions: everybody with a key may list and run them, the operator may change them."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from pentad.contracts.client_tools import MAX_CLIENT_TOOLS
from pentad.contracts.commands import InboundMessage
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import is_identifier
from pentad.contracts.instructions import Instruction
from pentad.services.gateway.domain.frames import UnreadableError, read_run
from pentad.services.gateway.domain.instruction_run import run_of
from pentad.services.gateway.domain.waited_turn import TurnFilter, WaitedTurn
from pentad.services.gateway.edge.http import admin_only, answer, read_body, wait_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.edge.schemas import (
    ADMIN,
    ANY_OBJECT,
    RECEIPT,
    TEXT,
    gives,
    json_body,
    object_of,
    page,
    path,
    query,
    ref,
)
from pentad.services.gateway.operator.runnables import RunnableRegistry
from pentad.services.gateway.tasks.event_stream import EventStream, SessionBlocks
from pentad.services.gateway.tasks.message_routes import message_of, receipt
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_states import TurnStates
from pentad.shared.keys import SessionKeys
from pentad.shared.presence.instruction_book import InstructionBook

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

WAIT_S = 60.0
"""Seconds that a request waits for a run if the caller names no time."""
_INSTRUCTION = {"allOf": [ref("Instruction"), object_of(source=TEXT, version=TEXT)]}
"""Schema of an instruction with its source (``file registered plugin built_in``) and its content's digest."""
_WARNED = {"allOf": [_INSTRUCTION, object_of(warning={"type": ["string", "null"]})]}
"""Schema of a registered instruction with a ``warning`` about tools that no worker has now."""


_RUN_BODY = {
    "type": "object",
    "properties": {
        "input": TEXT,
        **{name: ref("ExternalId") for name in ("session_id", "user_id", "message_id")},
        **dict.fromkeys(("metadata", "budget", "output_schema", "state"), ANY_OBJECT),
        "deadline": TEXT,
        "tools": {"type": "array", "items": ANY_OBJECT, "maxItems": MAX_CLIENT_TOOLS},
    },
    "required": ["input"],
    "additionalProperties": False,
}


class InstructionRoutes:
    """Routes of the instructions of all tenants."""

    def __init__(self, instructions: RunnableRegistry[Instruction]) -> None:
        self._instructions = instructions

    @operation(
        "GET",
        "/v1/instructions",
        "Every instruction: of the file, registered, of plugins, built in; of two with a name, the first of these",
        _200=gives("", page(_INSTRUCTION)),
    )
    async def list_instructions(self, request: "Request") -> "Response":
        """Return all instructions in use, each with its source."""
        return answer({"items": await self._instructions.listing(), "next": None})

    @operation(
        "GET",
        "/v1/instructions/{instruction}",
        "The instruction of this name that is in use",
        path("instruction"),
        problems=(404,),
        _200=gives("", _INSTRUCTION),
    )
    async def show_instruction(self, request: "Request") -> "Response":
        """Return one instruction, with its version and its source."""
        return answer(await self._instructions.one(_name_of(request)))

    @operation(
        "POST",
        "/v1/instructions",
        "Register an instruction, or replace the registered one with its name; it goes before a plugin's and what is "
        f"built in. All services know it within two seconds; tasks keep the one that they were opened with; {ADMIN}",
        body=json_body(ref("Instruction")),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _WARNED),
        _201=gives("registered", _WARNED),
    )
    async def register_instruction(self, request: "Request") -> "Response":
        """Add an instruction, or replace a registered one."""
        admin_only(request)
        shown, new = await self._instructions.register(await read_body(request))
        return answer(shown, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/instructions/{instruction}",
        f"Remove a registered instruction; what it stood before comes back; {ADMIN}",
        path("instruction"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_instruction(self, request: "Request") -> "Response":
        """Remove a registered instruction."""
        from starlette.responses import Response

        admin_only(request)
        await self._instructions.delete(_name_of(request))
        return Response(status_code=204)


class RunRoutes:
    """Routes of runs; a run is a message that names an instruction or a graph."""

    def __init__(
        self, book: InstructionBook, turns: TurnFollower, states: TurnStates, closing: asyncio.Event, shards: int
    ) -> None:
        """``closing`` is set when the gateway stops."""
        self._book, self._turns, self._states, self._closing, self._shards = book, turns, states, closing, shards

    @operation(
        "POST",
        "/v1/instructions/{instruction}/run",
        "Run an instruction or a graph, whose `state` begins it. With `Accept: text/event-stream` the turn's events as "
        "they come, as server-sent events",
        path("instruction"),
        query("wait", "number", "seconds to wait for the end, 60 when missing; 600 at most are waited", minimum=0),
        body=json_body(_RUN_BODY),
        problems=(400, 404, 413, 415, 422, 429),
        _200=gives(
            "the run at its end, `failed` ones too: `data` of a json instruction, else `content`",
            ref("InstructionRun"),
        ),
        _202=gives("it goes on: ask again with the same `message_id`", RECEIPT),
    )
    async def run_instruction(self, request: "Request") -> "Response | EventStream":
        """Return 200 with the ended run, 202 when the time is up, or its events to clients that accept them."""
        name, wait_s = _name_of(request), wait_of(request)
        body = await read_body(request)
        runnable = (await self._book.runnables(name)).get(name)
        if runnable is None:
            raise missing(f"there is no instruction or graph {name}")
        try:
            message, keys = message_of(request, read_run(body, name), self._shards)
        except UnreadableError as error:
            raise invalid(str(error)) from None
        try:
            if "text/event-stream" in request.headers.get("accept", ""):
                stream = await self._turns.begin(message, keys, TurnFilter(message.message_id or ""))
                return EventStream(self._closing, SessionBlocks(keys, stream))
            turn = await self._waited(message, keys, WAIT_S if wait_s is None else wait_s)
        except ProblemError as problem:
            problem.message_id = message.message_id
            raise
        if turn.end is None:
            return answer(receipt(keys, turn.message_id) | {"task_id": turn.task_id, "instruction": name}, 202)
        checked = None
        if not isinstance(runnable, GraphSpec):
            instruction, completed = runnable.with_output(message.output_schema), turn.end.outcome == "completed"
            checked = await checked_answer(instruction, turn.answer if completed else None)
        return answer(run_of(name, turn, turn.end, keys.session, checked).told())

    async def _waited(self, message: InboundMessage, keys: SessionKeys, wait_s: float) -> WaitedTurn:
        """Append a message, and return its turn when it ends or the time is up. Asked for again, a turn that has waited
        for a decision or its client's tools is returned as it stands now.
        """
        limit = monotonic() + wait_s
        turn = await self._turns.wait(message, keys, wait_s)
        return await self._states.followed(keys, turn.message_id, limit - monotonic()) if turn.may_go_on else turn


async def checked_answer(instruction: Instruction, text: str | None) -> str | None:
    """Return the JSON value of a run's answer; None if it does not fit the instruction that this gateway knows.

    The runner has checked it, too, but perhaps against an older version of the instruction.
    """
    if instruction.output_schema is None or text is None:
        return None
    from pentad.shared.instructions.output import Output

    try:
        return await Output(instruction.output_schema).read(text)
    except ValueError:
        return None


def _name_of(request: "Request") -> str:
    """Return the instruction's name in the path. Raises ``ProblemError`` (404) for an invalid name."""
    name: str = request.path_params["instruction"]
    if not is_identifier(name):
        raise missing("there is no such instruction")
    return name
