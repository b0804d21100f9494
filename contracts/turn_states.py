"""The state of a message's turn, for whoever sent the message and comes back later."""

from typing import Literal

from pydantic import Field

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskUsage
from pentad.contracts.turns import Outcome


class TurnState(Contract):
    """The turn of one message: how far it is, and what has come of it."""

    session_id: str
    message_id: str
    task_id: str | None = None
    """Task to which the message was routed; absent until that is known."""
    status: Literal["accepted", "running"] | Outcome
    """``accepted``: it waits to be routed. ``running``: its task works on it. Any other is the end of the turn."""
    reason: str = ""
    """Reason of the end: an error code with its text, or what the task waits for."""
    answer: str | None = None
    """Text of the turn's last message so far; at its end the answer, or the question to the person."""
    usage: TaskUsage | None = None
    """Tokens and dollars that the task had used at the end of the turn; absent before it, and where none is told."""
    waiting: list[PendingApproval] = Field(default_factory=list)
    """Tool calls of the task that wait for a person's decision."""
