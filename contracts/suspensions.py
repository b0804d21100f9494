"""Suspended tool calls: what a call that has begun needs before it can go on, and the answer with which it goes on."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_STATE = 256 * 1024
"""Characters of the state of a suspended call."""
MAX_MESSAGE = 4_000
"""Characters of what a suspended call asks a person."""
MAX_ROUNDS = 32
"""How often one call may be suspended."""

Needs = Literal["approval", "input", "outcome"]
"""Kind of a question to a person. ``approval``: whether the call may be made. ``input``: values that the tool needs to
go on. ``outcome``: whether the call, whose outcome nobody knows, was made."""

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
