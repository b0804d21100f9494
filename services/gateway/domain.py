"""Pure decisions of the gateway: what a client's frame asks for, and which events make up a message's turn."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.events import MessageRouted, TaskEnd, TaskStatusEvent
from pentad.contracts.plain_json import read_json
from pentad.shared.errors import PentadError

_ROUTED, _ENDED, _STATUS = MessageRouted.type_name(), TaskEnd.type_name(), TaskStatusEvent.type_name()
_COMMANDS = frozenset({"message", "ping", "cancel"})
_LATER = frozenset({"pause", "resume", "approve"})


class UnreadableError(PentadError):
    """What a client sent cannot be read; its text says what is wrong. The same again ends the same way."""


def read_object(raw: bytes | str) -> dict[str, Any]:
    """A JSON object. Raises ``UnreadableError``."""
    try:
        body = read_json(raw)
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UnreadableError("a JSON object is expected")
    return body


def read_message(body: Mapping[str, Any], tenant: str, session: str, message_id: str) -> InboundMessage:
    """A user's message; tenant and session are ours, whatever the client wrote. Raises ``UnreadableError``.

    ``message_id``: its id when the client gave none.
    """
    given = {name: value for name, value in body.items() if name != "version" and value is not None}
    ours = {"tenant_id": tenant, "session_id": session}
    try:
        return InboundMessage.model_validate({"message_id": message_id, **given, **ours})
    except ValidationError as error:
        raise UnreadableError("; ".join(_complaints(error))) from None


def _complaints(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(map(str, e['loc']))[:100]}: {e['msg'].removeprefix('Value error, ')[:300]}"
        for e in error.errors(include_input=False, include_url=False)[:5]
    ]


def command_of(frame: Mapping[str, Any]) -> str:
    """The type of a client's frame. Raises ``UnreadableError`` for what this version does not take."""
    kind = frame.get("type")
    if not isinstance(kind, str) or kind not in _COMMANDS | _LATER:
        raise UnreadableError(f"type must be one of {', '.join(sorted(_COMMANDS))}")
    if kind in _LATER:
        raise UnreadableError(f"{kind!r} is not available in this version")
    return kind


class TurnTracker:
    """Collects the events of one message's turn.

    It ends at the first of: ``message_routed`` with ``rejected``, an ``error`` with its ``message_id``, or its task's
    next ``task_end`` or ``task_status: waiting``.
    """

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self.task_id: str | None = None
        self.status: str | None = None
        """How the turn ended: completed, failed, cancelled, waiting, rejected or error; None while it goes on."""
        self.answer: str | None = None
        """The text of the turn's last message."""
        self.events: list[dict[str, Any]] = []

    def feed(self, event: dict[str, Any]) -> bool:
        """Take the session's next event; returns whether the turn has ended."""
        if self.status is None and self._belongs(event):
            self.events.append(event)
            self._learn(event)
        return self.status is not None

    def _belongs(self, event: Mapping[str, Any]) -> bool:
        if event["type"] in (_ROUTED, "error") and event.get("message_id") is not None:
            return bool(event["message_id"] == self.message_id)
        return self.task_id is not None and event.get("task_id") == self.task_id

    def _learn(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == _ROUTED:
            self.task_id = event.get("task_id")
            self.status = "rejected" if event["decision"] == "rejected" else None
        elif kind == "error" and event.get("message_id") == self.message_id:
            self.status = "error"
        elif kind == "message":
            self.answer = event["content"]
            self._drop_deltas(event["step"])
        elif kind == _ENDED:
            self.status = event["status"]
        elif kind == _STATUS and event["status"] == "waiting":
            self.status = "waiting"

    def _drop_deltas(self, step: int) -> None:
        """The message says all that its deltas said."""
        kinds = ("content", "thinking")
        self.events = [e for e in self.events if not (e["type"] in kinds and e.get("step") == step)]

    def result(self, session: str) -> dict[str, Any]:
        """What `POST /v1/messages?wait` answers at the turn's end."""
        return {
            "session_id": session,
            "message_id": self.message_id,
            "task_id": self.task_id,
            "status": self.status,
            "answer": self.answer,
            "events": self.events,
        }
