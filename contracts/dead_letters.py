"""Dead letters: entries, mail and tool calls that were set aside, with their addressee, reason and causes."""

from typing import Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import may_be
from pentad.contracts.plain_json import read_json

LetterKind = Literal["entry", "session_mail", "task_mail", "call"]
LinkKind = Literal["message", "task", "step", "call", "entry", "cause"]


class Link(Contract):
    """One cause in the chain that led to a dead letter."""

    kind: LinkKind
    """The kind of the cause; ``cause``: a direct cause of which nothing but the id is known."""
    id: str


class DeadLetter(Contract):
    """An entry, mail or a tool call that was set aside, with its addressee, the reason and the chain of its causes."""

    version: Literal[1] = 1
    kind: LetterKind
    """The kind of the letter: an entry of a stream, messages of a session that were not routed, mail of a task that
    could not be handled, or a tool call."""
    stream: str
    """The key of the stream whose entry was set aside."""
    entry_id: str
    tenant_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    """The tool call that was set aside, if it is known; the three fields above name its tenant, session and task."""
    reason: str
    attempts: int
    at: str
    body: dict[str, str]
    """The content that was set aside: an entry's fields, or each piece of mail as ``NUMBER KIND`` with its body. Bytes
    that are not UTF-8 are written as ``\\xNN``."""
    clipped: bool = False
    """Whether the body was longer than the part that is kept."""
    chain: list[Link] = Field(default_factory=list)
    """Causes from the user's message to this letter, as far as they are known."""


FOR_WHOM = ("tenant_id", "session_id", "task_id", "tool_call_id")


def named_in(text: str) -> dict[str, str]:
    """Return the ids that a JSON object names.

    Values that are no valid id are left out. The result is empty for a text that is no JSON object or has too many
    values.
    """
    try:
        found = read_json(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str) and may_be(name, value)}
