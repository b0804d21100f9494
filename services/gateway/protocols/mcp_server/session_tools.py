"""The tools of the MCP server that talk to sessions: runs, messages, their states, and decisions."""

import math
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from pentad.contracts.ids import is_external_id, is_identifier
from pentad.contracts.instructions import Instruction
from pentad.contracts.turn_states import TurnState
from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.approval import read_decision
from pentad.services.gateway.domain.frames import UnreadableError, read_run
from pentad.services.gateway.edge.http import WAIT_LIMIT_S, caller_of, scope_of, session_keys
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.operator.instruction_routes import checked_answer
from pentad.services.gateway.protocols.mcp_server.catalogue import DEFAULT_WAIT_S
from pentad.services.gateway.protocols.mcp_server.inputs import (
    AskedState,
    PersonsReply,
    decisions_of,
    text_of_answer,
)
from pentad.services.gateway.protocols.mcp_server.progress import Tell, told_progress
from pentad.services.gateway.protocols.mcp_server.tool_answers import ToolAnswer, answer_of_data, answer_of_turn
from pentad.services.gateway.tasks.approvals import Approvals, decider
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.message_routes import message_of
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_states import TurnStates, goes_on
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys
from pentad.shared.presence.instruction_book import InstructionBook

if TYPE_CHECKING:
    from starlette.requests import Request

_SENT_FIELDS = frozenset({"content", "session_id", "user_id", "message_id", "files", "task_id"})
_DECISION_FIELDS = frozenset({"approved", "args", "reason", "args_digest"})


@immutable
class ToolRequest:
    """A call of a tool, as it came."""

    request: "Request"
    args: Mapping[str, Any]
    tell: Tell | None = None
    """Function that tells the progress; None: the client has not asked for it."""

    def wait_s(self) -> float:
        """Return the seconds that the caller waits, at most until a token ends. Raises ``UnreadableError``."""
        given = self.args.get("wait", DEFAULT_WAIT_S)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= WAIT_LIMIT_S:
            raise UnreadableError(f"wait: a number of seconds from 0 to {WAIT_LIMIT_S:g} is expected")
        left_s = caller_of(self.request).left_s
        return min(float(given), math.inf if left_s is None else left_s)

    def fields(self, *wanted: str) -> dict[str, Any]:
        """Return these arguments and no others. Raises ``UnreadableError`` for one that is not known."""
        if unknown := sorted(set(self.args) - {*wanted, "wait"}):
            raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(sorted(wanted))}")
        return {name: self.args[name] for name in wanted if name in self.args}


@immutable
class SessionParts:
    """The parts of the gateway by which sessions are talked to."""

    streams: TurnStreams
    turns: TurnFollower
    states: TurnStates
    queries: Queries
    approvals: Approvals
    control: Control
    book: InstructionBook
    shards: int


class SessionTools:
    """Carries out calls of the tools of sessions.

    Methods raise ``ProblemError``, ``UnreadableError`` and ``OutageError``.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    async def run(self, call: ToolRequest) -> ToolAnswer:
        """Run the instruction or graph that an argument names."""
        name = call.args.get("name")
        if not isinstance(name, str) or not is_identifier(name):
            raise UnreadableError("name: the name of an instruction or a graph is expected")
        given = {field: value for field, value in call.args.items() if field != "name"}
        return await self.run_named(name, ToolRequest(call.request, given, call.tell))

    async def run_named(self, name: str, call: ToolRequest) -> ToolAnswer:
        """Run an instruction or a graph."""
        if name not in await self._parts.book.runnables(name):
            raise missing(f"there is no instruction or graph {name}: the tools named run__NAME are all that there are")
        fields = call.fields("input", "session_id", "user_id", "message_id", "files", "state")
        return await self._said(call, read_run(fields, name))

    async def send(self, call: ToolRequest) -> ToolAnswer:
        """Send a message to a session."""
        return await self._said(call, call.fields(*_SENT_FIELDS))

    async def state(self, call: ToolRequest) -> ToolAnswer:
        """Tell how far the turn of a message is."""
        fields = call.fields("session_id", "message_id")
        session, message = fields.get("session_id"), fields.get("message_id")
        if not isinstance(session, str) or not isinstance(message, str) or not is_external_id(message):
            raise UnreadableError("session_id, message_id: the ids of a run are expected, as its answer has them")
        keys = self._keys(call, session)
        if not await self._parts.turns.knows(keys, message):
            raise missing("the session has no such message, or it was sent longer ago than ids are kept (a day)")
        return await self._followed(call, keys, message, TurnTracker(message))

    async def decide(self, call: ToolRequest) -> ToolAnswer:
        """Take a person's decision about a tool call that waits for it."""
        caller, (tenant, session) = caller_of(call.request), scope_of(call.request)
        fields = call.fields("task_id", "tool_call_id", *_DECISION_FIELDS)
        task, name = fields.pop("task_id", None), fields.pop("tool_call_id", None)
        if not (isinstance(task, str) and isinstance(name, str) and is_identifier(task) and is_identifier(name)):
            raise UnreadableError("task_id, tool_call_id: the ids of a tool call that waits are expected")
        asked = read_decision(fields)
        decided = await self._parts.approvals.decide(tenant, task, name, asked, decider(caller), session)
        return answer_of_data(decided.model_dump(mode="json", exclude_none=True))

    async def cancel(self, call: ToolRequest) -> ToolAnswer:
        """Ask a task to cancel itself."""
        (tenant, session), task = scope_of(call.request), call.fields("task_id").get("task_id")
        if not isinstance(task, str) or not is_identifier(task):
            raise UnreadableError("task_id: the id of a task is expected, as the answer of its run has it")
        await self._parts.control.ask("cancel", tenant, task, session)
        return answer_of_data({"task_id": task, "asked": "cancel"})

    async def resume(self, call: ToolRequest, asked: AskedState, replies: Mapping[str, PersonsReply]) -> ToolAnswer:
        """Take what a person has answered in the middle of a call, and go on with it."""
        caller, (tenant, session) = caller_of(call.request), scope_of(call.request)
        keys = self._keys(call, asked.session)
        if await self._parts.queries.session_of(tenant, asked.task) != asked.session:
            raise missing("requestState: the session has no such task")
        if not asked.calls:
            text = text_of_answer(replies)
            if text is None:
                return await self._followed(call, keys, asked.message, TurnTracker(asked.message))
            body = {"content": text, "task_id": asked.task, "message_id": asked.answer_id, "session_id": asked.session}
            return await self._said(call, body)
        decisions = decisions_of(asked, replies)
        if decisions:
            caller.check("approve")
        async with told_progress(self._parts.streams, keys, TurnTracker("", task_id=asked.task), call.tell):
            for name, decision in decisions:
                await self._parts.approvals.decide(tenant, asked.task, name, decision, decider(caller), session)
            return await self._answer(keys, await self._parts.states.waited(keys, asked.message, call.wait_s()))

    async def _said(self, call: ToolRequest, body: Mapping[str, Any]) -> ToolAnswer:
        """Append a message, and return its turn when it ends or the time is up."""
        wait_s = call.wait_s()
        message, keys = message_of(call.request, body, self._parts.shards)
        name, limit = message.message_id or "", monotonic() + wait_s
        try:
            async with told_progress(self._parts.streams, keys, TurnTracker(name), call.tell):
                turn = await self._parts.turns.wait(message, keys, wait_s)
                state = await self._parts.states.of(keys, turn)
                if turn.end is not None and goes_on(state):  # a repeated message, whose turn has been decided about
                    state = await self._parts.states.waited(keys, name, max(0.0, limit - monotonic()))
                return await self._answer(keys, state)
        except ProblemError as problem:
            problem.message_id = name
            raise

    async def _followed(self, call: ToolRequest, keys: SessionKeys, message: str, turn: TurnTracker) -> ToolAnswer:
        wait_s = call.wait_s()
        async with told_progress(self._parts.streams, keys, turn, call.tell):
            return await self._answer(keys, await self._parts.states.waited(keys, message, wait_s))

    def _keys(self, call: ToolRequest, session: str) -> SessionKeys:
        """Return the keys of a session that the caller may see. Raises ``ProblemError``."""
        (tenant, _), grant = scope_of(call.request), caller_of(call.request).grant
        if grant is not None:
            grant.check_session(session)
        if not is_external_id(session):
            raise invalid("session_id: the id of a session is expected")
        return session_keys(tenant, session, self._parts.shards)

    async def _answer(self, keys: SessionKeys, state: TurnState) -> ToolAnswer:
        return answer_of_turn(state, await self._value(keys.tenant, state))

    async def _value(self, tenant: str, state: TurnState) -> str | None:
        """Return the JSON that a json instruction has answered with; None for an answer in words."""
        if state.status != "completed" or state.task_id is None:
            return None
        task = await self._parts.queries.task(tenant, state.task_id)
        runnable = None if task is None else (await self._parts.book.runnables()).get(task.instruction)
        return await checked_answer(runnable, state.answer) if isinstance(runnable, Instruction) else None
