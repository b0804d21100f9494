"""Dead letters: what was set aside, for whom it was, why, and what had led to it."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import from_json, to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import is_external_id, may_be

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

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, data: Any) -> Any:
        """Reads what versions before 0.2 have written."""
        is_old = isinstance(data, dict) and "version" not in data and isinstance(data.get("fields"), dict)
        return _upgraded(data) if is_old else data


FOR_WHOM = ("tenant_id", "session_id", "task_id", "tool_call_id")


def named_in(text: str) -> dict[str, str]:
    """The ids that a JSON object names; what is no object, or no id, names nothing."""
    try:
        found = from_json(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str) and may_be(name, value)}


_SESSION_MAIL = re.compile(r"\d+-\d+ (\{.*)", re.DOTALL)
_KINDS: tuple[tuple[str, LinkKind], ...] = (("task-", "task"), ("call-", "call"), ("step-", "step"))


def _upgraded(old: dict[str, Any]) -> dict[str, Any]:
    body = {str(name): str(value) for name, value in old["fields"].items()}
    stream, said = str(old.get("stream", "")), _SESSION_MAIL.fullmatch(body.get("data", ""))
    if stream.endswith(":wake:session") and said is not None:
        kind, texts, body = "session_mail", [said[1]], {"0 user": body["data"]}
    elif stream.endswith(":wake:task") and all(re.fullmatch(r"\d+ \w+", name) for name in body):
        kind, texts = "task_mail", [_message_in(value) for value in body.values()]
    else:
        kind, texts = "call" if ":tools:" in stream else "entry", [body.get("data", "")]
    named: dict[str, str] = {}
    for text in texts:
        named |= {name: value for name, value in named_in(text).items() if name in FOR_WHOM}
    written = old.get("chain")
    chain = list(_links(written if isinstance(written, list) else []))
    for link in chain:  # of mail and of calls that cannot be read it says whose they were
        if kind in ("task_mail", "call") and link["kind"] in ("task", "call"):
            named.setdefault("task_id" if link["kind"] == "task" else "tool_call_id", link["id"])
    rest = {name: old[name] for name in ("stream", "entry_id", "reason", "attempts", "at") if name in old}
    return rest | {"kind": kind, "body": body, "chain": chain} | named


def _message_in(mail: str) -> str:
    """The user's message in a task's mail, as JSON; '' when it has none."""
    try:
        return to_json(from_json(mail)["message"]).decode()
    except (ValueError, KeyError, TypeError):
        return ""


def _links(ids: list[Any]) -> Iterator[dict[str, str]]:
    """Ids alone, the user's message first."""
    for place, name in enumerate(each for each in ids if isinstance(each, str) and is_external_id(each)):
        kind = next((kind for prefix, kind in _KINDS if name.startswith(prefix)), "cause" if place else "message")
        yield {"kind": kind, "id": name}
