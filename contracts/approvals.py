"""Approvals: tool calls that wait until a person allows or refuses them, what was decided, and the operators' rules."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, StringConstraints, field_validator, model_validator

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import DEFAULT_TENANT, ExternalId, Identifier
from pentad.contracts.suspensions import Needs
from pentad.contracts.tools import Effect

MAX_REASON = 2_000
"""Characters of the reason that a person gives for a decision."""
MAX_EDITED = 64 * 1024
"""Bytes, as JSON, of arguments that a person has changed."""


def digest_of_args(args: Mapping[str, Any]) -> str:
    """Return the digest of a call's arguments, whatever the order of their names."""
    text = json.dumps(args, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class PendingApproval(Contract):
    """A tool call that waits for a person's approval."""

    task_id: str
    session_id: str
    user_id: str | None = None
    """User whose message has led to the call."""
    tool_call_id: str
    tool: str
    args: dict[str, Any]
    args_digest: str
    effect: Effect
    reason: str
    """Reason why a person is asked."""
    asked_at: str
    expires_at: str
    """Time after which nobody can decide any more, and the call is not made."""
    needs: Needs = "approval"
    """Kind of the question to the person."""
    form: dict[str, Any] | None = None
    """JSON schema of the values that are asked for: they are the ``args`` of the decision."""
    approvers: list[str] | None = None
    """Users who may decide; absent: everyone who may decide in this session."""


class ApprovalDecision(Contract):
    """The one decision about a tool call that waited for a person's approval."""

    task_id: str
    tool_call_id: str
    approved: bool
    by: str | None = None
    """Who decided; None: nobody did in time."""
    at: str
    args: dict[str, Any] | None = None
    """Arguments with which the call is made instead, if the person has changed them."""
    reason: str = ""


KEY_APPROVER = "key"
"""Stands among the approvers of a call for the holder of the tenant's API key."""
MAX_RULES = 1_000
"""Approval policies that may be registered while the system runs, and as many in a file."""
MAX_RULE = 16_384
"""Bytes of one approval policy as JSON."""
MAX_PATTERN = 500
"""Characters of a pattern that arguments are searched for."""
MAX_TESTS = 16
"""Arguments that one approval policy may test."""
MAX_DEPTH = 8
"""Parts of a dotted name, which reaches into objects."""
_MAX_WAIT_S = 2_592_000
"""Seconds that a rule may give a person to decide: 30 days."""


def _argument_name(name: str) -> str:
    if name.count(".") >= MAX_DEPTH or not all(name.split(".")):
        raise ValueError(f"an argument's name has at most {MAX_DEPTH} parts between dots, none of them empty")
    return name


_Number = Annotated[float, Field(strict=True)]
_Glob = Annotated[str, StringConstraints(min_length=1, max_length=128)]
_ArgumentName = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_argument_name)]


class ArgumentTest(Contract):
    """The test of one argument of a tool call: all that it names must hold."""

    model_config = ConfigDict(extra="forbid")

    matches: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PATTERN)] | None = None
    """Regular expression that is searched in the argument, in linear time; a text that is none, such as `*.env`, is
    read as a glob of the whole argument. All but texts are searched as their JSON."""
    equals: JsonValue = None
    """Value that the argument has."""
    one_of: Annotated[list[JsonValue], Field(min_length=1, max_length=100)] | None = None
    """Values of which the argument has one."""
    above: _Number | None = None
    """Number that the argument is greater than."""
    below: _Number | None = None
    """Number that the argument is less than."""

    @model_validator(mode="after")
    def _tests_something(self) -> Self:
        if (self.matches, self.equals, self.one_of, self.above, self.below) == (None,) * 5:
            raise ValueError("it tests nothing: give matches, equals, one_of, above or below, none of them null")
        return self


class PolicyQuestion(Contract):
    """A tool call of which an operator wants to know what the policies say."""

    model_config = ConfigDict(extra="forbid")

    tool: Identifier
    args: dict[str, Any] = Field(default_factory=dict)
    effect: Effect | None = None
    """Effect of the tool; absent: that of the tool of this name that workers have, else `unsafe`."""
    tenant_id: Identifier = DEFAULT_TENANT
    instruction: Identifier | None = None
    """Instruction or graph that the task runs; absent: that of the executor."""

    @field_validator("args")
    @classmethod
    def _is_short(cls, args: dict[str, Any]) -> dict[str, Any]:
        if len(json.dumps(args, separators=(",", ":")).encode()) > MAX_EDITED:
            raise ValueError(f"arguments have at most {MAX_EDITED:,} bytes as JSON")
        return args


class PolicyAnswer(Contract):
    """The decision of the approval policies about a tool call."""

    then: Literal["allow", "ask", "deny"] | None = None
    """Fate of the call; absent: no policy fits, and the tool's own wish and PENTAD_APPROVE decide."""
    policy: str | None = None
    """Name of the policy that decides."""
    reason: str = ""
    approvers: list[str] | None = None
    effect: Effect
    """Effect with which the policies were asked."""


class ApprovalRule(Contract):
    """An approval policy: which tool calls are made at once, which a person must allow, and which are never made.

    A call fits a rule that names nothing it does not have. Unknown fields are refused: they may be misspelt.
    """

    model_config = ConfigDict(extra="forbid")

    name: Identifier
    """Name of the rule. The gateway makes one where a rule is registered without it."""
    tenant_id: Identifier | None = None
    """Tenant whose calls the rule is about; absent: all tenants."""
    tool: _Glob | None = None
    """Glob of the names of tools, such as `mail_*`; absent: all tools."""
    effect: Literal["pure", "idempotent", "unsafe"] | None = None
    """Effect that the tool has declared; absent: any."""
    instruction: _Glob | None = None
    """Glob of the instruction or graph that the task runs, or of the instruction of the graph's node; absent: all."""
    args: dict[_ArgumentName, ArgumentTest] | None = Field(default=None, min_length=1, max_length=MAX_TESTS)
    """Tests of arguments by name, all of which must fit; a dotted name such as `to.address` reaches into an object. An
    argument that the call does not have fits no test."""
    then: Literal["allow", "ask", "deny"]
    """Fate of a call that fits. `allow`: it is made. `ask`: a person must allow it. `deny`: it is never made.
    Any deny that fits outranks all other rules; of these the first that fits decides."""
    approvers: Annotated[list[ExternalId], Field(min_length=1, max_length=100)] | None = None
    """Users who may decide; `key` stands for the holder of the tenant's API key. Absent: everyone who may decide in the
    session."""
    expires_s: Annotated[_Number, Field(ge=1, le=_MAX_WAIT_S)] | None = None
    """Seconds that a person has to decide; absent: as PENTAD_APPROVAL_S says."""
    reason: Annotated[str, StringConstraints(max_length=MAX_REASON)] = ""
    """Reason that the person is told, or with a deny the model."""
    order: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 100
    """Rules of a lower order come first; of the same order those of the file, then by name."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.then != "ask":
            for name in ("approvers", "expires_s"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: only a rule with then = ask has it, for no other asks a person")
        if len(self.to_json()) > MAX_RULE:
            raise ValueError(f"a rule has at most {MAX_RULE:,} bytes as JSON")
        return self
