"""Suspended tool calls: what a call that has begun needs before it can go on, and the answer with which it goes on."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_STATE = 256 * 1024
"""Characters of the state of a suspended call."""
MAX_MESSAGE = 4_000
"""Characters of what a suspended call asks a person."""
MAX_ROUNDS = 32
"""How often one call may be suspended."""

MAX_INNER_ROUNDS = 256
"""How often one call may be suspended for calls of its own."""
MAX_INNER_CALLS = 16
"""Calls that a suspended call may wait for at once."""

Needs = Literal["approval", "input", "outcome", "calls"]
"""Kind of a call's needs. ``approval``: a person says whether it may be made. ``input``: a person gives values that the
tool needs. ``outcome``: a person says whether the call, whose outcome nobody knows, was made. ``calls``: other tools
are called for it."""

OUTCOME_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {
            "type": "string",
            "enum": ["done", "not done", "try again"],
            "description": "whether the call was made; 'try again' makes it once more",
        },
        "result": {"type": "string", "maxLength": 16_384, "description": "what a call that was made has returned"},
    },
    "required": ["outcome"],
    "additionalProperties": False,
}
"""JSON schema of a person's answer about a call whose outcome is unknown."""


class InnerCall(BaseModel):
    """A tool call that another call makes on its way."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tool: str = Field(max_length=64)
    args: dict[str, Any] = Field(default_factory=dict)


class InnerResult(BaseModel):
    """The result of a tool call that another call has made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ok: bool
    text: str
    """Result, or the reason of the failure."""


class Suspension(BaseModel):
    """The needs of a tool call that has begun and cannot go on yet, and the state from which it goes on."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    needs: Needs
    message: str = Field(default="", max_length=MAX_MESSAGE)
    """Words in which the person is asked."""
    form: dict[str, Any] | None = None
    """JSON schema of the answer; None where yes or no is the answer."""
    state: str = Field(default="", max_length=MAX_STATE)
    """State of the tool, given back to it unread when the call goes on."""
    calls: list[InnerCall] = Field(default_factory=list, max_length=MAX_INNER_CALLS)
    """Calls that the call needs; at least one where it ``needs`` calls."""


class Resumption(BaseModel):
    """The answer with which a suspended call goes on, on whichever tool-worker."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    round: int = 1
    """How often the call was suspended."""
    needs: Needs
    accepted: bool = True
    """Whether the person has given the answer; False: the person has declined to."""
    content: dict[str, Any] | None = None
    """The answer, which fits the form."""
    state: str = ""
    """State that the tool had when it was suspended."""
    results: list[InnerResult] | None = None
    """Results of the calls that it has asked for, in their order; absent: it has asked for none."""
