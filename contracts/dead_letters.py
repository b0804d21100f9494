"""Dead letters: what was set aside, for whom it was, why, and what had led to it."""

from typing import Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import may_be
from pentad.contracts.plain_json import read_json

LetterKind = Literal["entry", "session_mail", "task_mail", "call"]
LinkKind = Literal["message", "task", "step", "call", "entry", "cause"]


class Link(Contract):
    """One step of what led to a dead letter."""

    kind: LinkKind
    """``cause``: all that is known is that this was its direct cause."""
    id: str


class DeadLetter(Contract):
    """What was set aside: what it was, for whom, why, and what led to it."""

    version: Literal[1] = 1
    kind: LetterKind
    """An entry of a stream, what was said in a session and not routed, the mail of a task that could not be handled, or
    a tool call."""
    stream: str
    """The key of the stream whose entry was set aside."""
    entry_id: str
    tenant_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    """For whom it was, as far as that is known."""
    reason: str
    attempts: int
    at: str
    body: dict[str, str]
    """What was set aside: an entry's fields, or each piece of mail as ``NUMBER KIND`` with its body. Bytes that are not
    UTF-8 are written with ``\\xNN``."""
    clipped: bool = False
    """The body was longer than what is kept of it."""
    chain: list[Link] = Field(default_factory=list)
    """From the user's message to this, as far as it is known."""


FOR_WHOM = ("tenant_id", "session_id", "task_id", "tool_call_id")


def named_in(text: str) -> dict[str, str]:
    """The ids that a JSON object names; what is no object, or no id, names nothing; nor does one of too many values."""
    try:
        found = read_json(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str) and may_be(name, value)}
