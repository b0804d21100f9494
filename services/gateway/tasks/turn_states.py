"""The state of a message's turn, for whoever asks for it later, also beyond decisions that it has waited for."""

import asyncio
from time import monotonic
from typing import Literal

from pentad.contracts.turn_states import TurnState
from pentad.contracts.turns import NEEDS_APPROVAL, NEEDS_CLIENT
from pentad.services.gateway.domain.waited_turn import WaitedTurn
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.shared.keys import SessionKeys

_GOES_ON = frozenset({"accepted", "running"})
"""Statuses of a turn that has not ended."""
_LOOK_S = 0.2
"""Seconds between two looks at a turn whose task has been allowed to go on."""


def goes_on(state: TurnState) -> bool:
    """Return whether a turn has not ended."""
    return state.status in _GOES_ON


class TurnStates:
    """Reads the states of turns. Methods raise ``OutageError`` and ``ProblemError``."""

    def __init__(self, turns: TurnFollower, queries: Queries, approvals: Approvals) -> None:
        self._turns, self._queries, self._approvals = turns, queries, approvals

    async def waited(self, keys: SessionKeys, message_id: str, wait_s: float) -> TurnState:
        """Return the state of an accepted message's turn, when it has ended or the time is up."""
        _, state = await self._followed(keys, message_id, wait_s)
        return state

    async def followed(self, keys: SessionKeys, message_id: str, wait_s: float) -> WaitedTurn:
        """Return an accepted message's turn when it has ended, beyond what it has waited for, or the time is up."""
        turn, state = await self._followed(keys, message_id, wait_s)
        if goes_on(state):
            turn.go_on()
        return turn

    async def _followed(self, keys: SessionKeys, message_id: str, wait_s: float) -> tuple[WaitedTurn, TurnState]:
        limit = monotonic() + wait_s
        while True:
            turn = await self._queries.turn(keys, message_id)
            state = await self.of(keys, turn)
            left_s = limit - monotonic()
            if not goes_on(state) or left_s <= 0 or self._turns.stopping:
                return turn, state
            if turn.end is None:
                await self._turns.follow(keys, message_id, left_s)
            else:  # its task has been allowed to go on
                await asyncio.sleep(min(left_s, _LOOK_S))

    async def of(self, keys: SessionKeys, turn: WaitedTurn) -> TurnState:
        """Return the state of a turn that was followed, with the tool calls that wait for a decision now."""
        asked = [] if turn.task_id is None else await self._approvals.of_task(keys.tenant, turn.task_id)
        waits_for = "" if turn.end is None else turn.end.reason
        decided = waits_for == NEEDS_APPROVAL and not asked
        if waits_for == NEEDS_CLIENT and turn.task_id is not None:
            decided = await self._queries.has_results(keys.tenant, turn.task_id)
        unended: Literal["accepted", "running"] = "accepted" if turn.task_id is None else "running"
        return TurnState(
            session_id=keys.session,
            message_id=turn.message_id,
            task_id=turn.task_id,
            status=unended if turn.status is None or decided else turn.status,
            reason="" if turn.end is None or decided else turn.end.why,
            answer=turn.answer,
            usage=turn.usage,
            waiting=asked,
        )
