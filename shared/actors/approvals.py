"""Calls that are not made yet, kept beside their task until a person has decided or other calls have ended."""

from typing import Any

from pentad.contracts.approvals import KEY_APPROVER, PendingApproval
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.envelope import Contract
from pentad.contracts.ids import rfc3339
from pentad.contracts.suspensions import Needs

_ASKS = "asks:"


class KeptRequest(Contract):
    """A tool call that is not made yet, as it would be made, and everything that a person's decision is checked by."""

    command: ToolCallCommand
    queue: str
    parameters: dict[str, Any]
    """JSON schema of the arguments that a person may give: those of the tool, or the values that it needs to go on."""
    args_digest: str
    reason: str
    """Reason why a person is asked; '' where none is."""
    asked_at: int
    """Time in ms of the server's clock, like the next one."""
    expires_at: int
    needs: Needs = "approval"
    """Kind of the question to the person."""
    state: str = ""
    """State of the tool, for a call that it has suspended."""
    approvers: list[str] | None = None
    """Users who may decide; None: everyone who may decide in the session."""
    expires_s: float | None = None
    """Seconds that a person has to decide, where it is not the setting that says so."""

    @property
    def is_form(self) -> bool:
        """Whether the decision consists of values, not of yes or no alone."""
        return self.needs != "approval"

    def may_decide(self, user: str | None, *, by_key: bool = False) -> bool:
        """Whether this user, or the holder of the tenant's API key, may decide; all may where nobody is named."""
        if self.approvers is None:
            return True
        return KEY_APPROVER in self.approvers if by_key else user in self.approvers and user != KEY_APPROVER

    def shown(self) -> PendingApproval:
        """Return the call as persons see it who may decide."""
        made = self.command
        return PendingApproval(
            task_id=made.task_id or "",
            session_id=made.session_id or "",
            user_id=made.user_id,
            tool_call_id=made.tool_call_id,
            tool=made.tool,
            args=made.args,
            args_digest=self.args_digest,
            effect=made.effect,
            reason=self.reason,
            asked_at=rfc3339(self.asked_at),
            expires_at=rfc3339(self.expires_at),
            needs=self.needs,
            form=self.parameters if self.is_form else None,
            approvers=self.approvers,
        )


def kept_request(call: str) -> str:
    """Return the name under which a call that waits is kept beside its task."""
    return f"{_ASKS}{call}"


def call_of_request(name: str) -> str | None:
    """Return the call from a name that `kept_request` has made; None for any other name."""
    return name.removeprefix(_ASKS) if name.startswith(_ASKS) else None


def kept_decision(call: str) -> str:
    """Return the name under which the decision about a call is kept beside its task."""
    return f"decided:{call}"


def parts_of_index_entry(entry: str) -> tuple[str, str]:
    """Return the task and the call of an entry in the index of calls that wait."""
    task, _, call = entry.partition("~")
    return task, call


def waits_in_index(task: str, call: str) -> str:
    """Return the entry of a call in the index of those that wait."""
    return f"{task}~{call}"
