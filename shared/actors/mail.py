"""The contents of mail to tasks, defined once for senders and readers."""

from typing import Any, Literal

from pydantic import Field

from pentad.contracts.approvals import ApprovalDecision
from pentad.contracts.commands import InboundMessage, ToolCallCommand
from pentad.contracts.envelope import Contract
from pentad.contracts.events import EndStatus, TaskUsage
from pentad.contracts.suspensions import Suspension
from pentad.contracts.tools import KeptFile, ToolOutcome

NEW_TASK = "new"
"""Stands where a message may be moved to a task that does not exist yet."""


def read_session_mail(body: bytes) -> tuple[str, InboundMessage]:
    """A session's mail: the inbound entry's id and the message."""
    entry_id, message = body.split(b" ", 1)
    return entry_id.decode(), InboundMessage.model_validate_json(message)


class SessionMessage(Contract):
    """One message of the session's recent past."""

    role: Literal["user", "assistant"]
    content: str
    task_id: str
    at: str
    message_id: str | None = None
    files: tuple[str, ...] | None = None
    """Paths of files of the session that the message was about, where it was brought along by another one."""


class UserMail(Contract):
    """A user's message, routed to this task (mail kind ``user``)."""

    message: InboundMessage
    entry_id: str
    at: str
    context: list[SessionMessage] = Field(default_factory=list)
    """Context of a new task: the last turns of the session, or of the archived task it continues."""


class ChildOutcome(Contract):
    """The outcome of a task for the task that has started it, beside the text of its answer."""

    status: EndStatus
    value: Any = None
    """Value of the answer: its JSON, else its text."""
    writes: list[tuple[str, Any]] = Field(default_factory=list)
    """Everything that the run of a graph has written to its state, in order."""
    usage: TaskUsage = TaskUsage()


class SuspendedCall(Contract):
    """A tool call that has begun and cannot go on yet, as its tool-worker gives it back."""

    command: ToolCallCommand
    suspension: Suspension


class ResultMail(Contract):
    """A tool call's outcome (mail kind ``result``)."""

    tool_call_id: str
    content: str
    """The text for the model: the result, or the error."""
    ok: bool
    ref: str | None = None
    """Set when the content is kept aside in the task's `big` hash under this name."""
    duration_ms: int | None = None
    """Milliseconds that the call took; None if it did not run to its end."""
    child: ChildOutcome | None = None
    """Further outcome of a task that the call has started; None for a tool's."""
    suspended: SuspendedCall | None = None
    """Set for a call that has not ended, because it needs something to go on."""
    artifacts: list[KeptFile] | None = None
    """Files of the session that the call has made."""

    @classmethod
    def of(cls, call: str, outcome: ToolOutcome, ref: str | None = None) -> "ResultMail":
        """The mail that tells a task of a call's outcome. ``ref``: what the model is told is kept aside under it."""
        content = "" if ref else outcome.for_model
        return cls(
            tool_call_id=call,
            content=content,
            ok=outcome.ok,
            ref=ref,
            duration_ms=outcome.duration_ms,
            artifacts=list(outcome.artifacts) or None,
        )

    @classmethod
    def of_suspended(cls, command: ToolCallCommand, suspension: Suspension) -> "ResultMail":
        """The mail that gives back a call which cannot go on yet."""
        given_back = SuspendedCall(command=command, suspension=suspension)
        return cls(tool_call_id=command.tool_call_id, content="", ok=False, suspended=given_back)


class MoveMail(Contract):
    """A person moves a message of this task to another (mail kind ``move``)."""

    message_id: str
    to: str
    """A task's id, or `NEW_TASK`."""
    number: int = 0
    """Number of the message among the task's mail when the move was asked for; 0 when it was in the transcript."""


class ApprovalMail(Contract):
    """A person's decision about a tool call that waits for one (mail kind ``approval``)."""

    tool_call_id: str
    approved: bool
    by: str
    """Who decided."""
    reason: str = ""
    args: dict[str, Any] | None = None
    """Arguments with which the call is made instead, if the person has changed them."""
    spoken: bool | None = None
    """Set where a message of the person is the decision, so that nobody has been told of it yet."""

    def to_decision(self, task: str, at: str) -> ApprovalDecision:
        """Return the decision as it is kept with the task, to which the mail was sent at this time."""
        return ApprovalDecision(
            task_id=task,
            tool_call_id=self.tool_call_id,
            approved=self.approved,
            by=self.by,
            at=at,
            args=self.args,
            reason=self.reason,
        )


class CallRequest(Contract):
    """A tool call that somebody else than the model asks for."""

    tool: str
    args: dict[str, Any]


class RedriveMail(Contract):
    """A dead letter of this task was redriven (mail kind ``redrive``)."""

    letter: str
    """Id of the dead letter."""
    at: int
    """When, in ms."""
    calls: list[CallRequest] = Field(default_factory=list)
    """Tool calls to be made again; none: the task goes on where it stopped."""
