"""Verdicts of the operators' rules about tool calls. Pure."""

from typing import Literal

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.tools import ApprovalMode, ToolSpec
from pentad.shared.immutable import immutable


@immutable
class CallVerdict:
    """The rule that applies to a tool call, as far as its approval goes."""

    then: Literal["", "allow", "ask", "deny"] = ""
    """``allow``: the call is made, whatever its tool asks for. ``ask``: a person must allow it. ``deny``: it is never
    made. '' where no rule applies: the tool's wish and the setting decide."""
    reason: str = ""
    """Why a person is asked, or why the call is denied."""
    approvers: tuple[str, ...] | None = None
    """Users who may decide; None: everyone who may decide in the session."""
    expires_s: float | None = None
    """Seconds that a person has to decide; None: as the setting says."""

    def asks(self, spec: ToolSpec, mode: ApprovalMode) -> str:
        """Return why a person must allow a call of this tool before it is queued; '' when nobody is asked then."""
        if self.then:
            return self.reason if self.then == "ask" else ""
        return spec.approval_reason(mode)

    def lets_tool_ask(self, spec: ToolSpec) -> bool:
        """Whether the tool itself decides, before the call is made, if a person must allow it."""
        return not self.then and spec.approval == "ask_if"


NO_VERDICT = CallVerdict()


def verdict_of(rule: ApprovalRule | None) -> CallVerdict:
    """Return what the rule that decides about a call says; None: no rule fits the call."""
    if rule is None:
        return NO_VERDICT
    reason = rule.reason
    if rule.then == "deny":
        reason = f"this call is not allowed here: {reason or f'the policy {rule.name} denies it'}"
    elif rule.then == "ask":
        reason = reason or f"the policy {rule.name} asks for an approval"
    approvers = None if rule.approvers is None else tuple(rule.approvers)
    return CallVerdict(rule.then, reason, approvers, rule.expires_s)
