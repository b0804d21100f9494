"""Tool calls outside a conversation. Each is a message to a task of its own, which asks no model.

So a call is accepted once, survives every process, and is inspected, cancelled and erased as tasks are.
"""

from secrets import token_hex

from pentad.contracts.commands import NEW_TASK, InboundMessage
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import DIRECT_CALL
from pentad.contracts.runs import RunProblem, ToolRun
from pentad.services.gateway.domain.tool_call import (
    CallAsked,
    made_call,
    not_routed,
    run_of_task,
    session_of_call,
    tool_of_message,
)
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.tasks.message_intake import MessageIntake
from pentad.services.gateway.tasks.patience import persist
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, told
from pentad.shared.store.store import Store

_LOOK_S = 0.5
"""Seconds for which events are read of a call that has no task: they say whether it was refused."""


def _asked_for(keys: SessionKeys) -> str:
    """Return the key that says that a call was asked for: until a router has taken its message, nothing else does."""
    return told(keys.shard, keys.tenant, keys.session, "asked:call")


class DirectCalls:
    """Begins tool calls, and tells how far they are. Raises ``ProblemError``."""

    def __init__(self, store: Store, queries: Queries, intake: MessageIntake, turns: TurnFollower) -> None:
        self._store, self._queries, self._intake, self._turns = store, queries, intake, turns

    async def begin(self, tenant: str, asked: CallAsked) -> ToolRun:
        """Ask for a call, once for its id, and wait for its end for as long as the caller wants."""
        call_id = asked.call_id or f"c-{token_hex(12)}"
        keys = self._queries.session_keys(tenant, session_of_call(call_id))
        deadline = None
        if asked.timeout_s is not None:
            deadline = rfc3339(await self._store.clock() + round(asked.timeout_s * 1000))
        message = InboundMessage(
            content=asked.content,
            session_id=keys.session,
            message_id=call_id,
            task_id=NEW_TASK,
            user_id=asked.user_id,
            tenant_id=tenant,
            instruction=DIRECT_CALL,
            deadline=deadline,
        )
        mark = ("SET", _asked_for(keys), 1, "EX", DEDUP_TTL_S)
        await persist(lambda: self._store.call(*mark))
        if asked.wait_s > 0:
            return await self._state(keys, call_id, await self._turns.wait(message, keys, asked.wait_s))
        if not await self._intake.is_repeat(message, keys):
            await self._intake.accept(message, keys)
            return not_routed(call_id, tool_of_message(asked.content))
        return await self.state(tenant, call_id)

    async def state(self, tenant: str, call_id: str, wait_s: float = 0.0) -> ToolRun:
        """Return how far a call is, once it has ended or the time is up."""
        keys = self._queries.session_keys(tenant, session_of_call(call_id))
        found = await self._state(keys, call_id)
        if found.ended or wait_s <= 0:
            return found
        return await self._state(keys, call_id, await self._turns.follow(keys, call_id, wait_s))

    async def _state(self, keys: SessionKeys, call_id: str, turn: WaitedTurn | None = None) -> ToolRun:
        asked = [m for m in await self._queries.messages(keys) if m.get("message_id") == call_id]
        if not asked:
            return await self._without_task(keys, call_id, turn)
        task_id = str(asked[-1].get("task_id"))
        task = await self._queries.task(keys.tenant, task_id)
        if task is None:
            raise missing("there is no such call any more")
        tool_call_id = made_call(await self._queries.transcript(keys.tenant, task_id) or ())
        result = None
        if tool_call_id is not None and task.status == "completed":
            result = await self._queries.value(keys.tenant, task_id, tool_call_id)
        return run_of_task(call_id, tool_of_message(str(asked[-1].get("content"))), task, tool_call_id, result)

    async def _without_task(self, keys: SessionKeys, call_id: str, turn: WaitedTurn | None) -> ToolRun:
        """Return the state of a call that no router has taken yet, or that was refused or lost."""
        if turn is None:
            if not await self._store.call("EXISTS", _asked_for(keys)):
                raise missing("there is no such call: it was never asked for, or too long ago")
            turn = await self._turns.follow(keys, call_id, _LOOK_S)
        if turn.end is None or turn.task_id is not None:
            return not_routed(call_id)
        return not_routed(call_id, problem=RunProblem(code=turn.end.outcome, message=turn.end.why))
