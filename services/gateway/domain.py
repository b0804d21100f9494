"""Pure decisions of the gateway: what a client's frame asks for, and which events make up a message's turn."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.events import MessageEvent, SessionEvent, event_adapter
from pentad.contracts.plain_json import read_json
from pentad.contracts.turns import TurnTracker
from pentad.shared.errors import PentadError

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


class WaitedTurn:
    """Collects the events of one message's turn, for a client who waits for its end."""

    def __init__(self, message_id: str) -> None:
        self._turn = TurnTracker(message_id)
        self.answer: str | None = None
        """The text of the turn's last message."""
        self.events: list[dict[str, Any]] = []

    @property
    def task_id(self) -> str | None:
        """Where the message was routed; None until that is known."""
        return self._turn.task_id

    @property
    def status(self) -> str | None:
        """How the turn ended; None while it goes on."""
        return None if self._turn.end is None else self._turn.end.outcome

    def feed(self, event: dict[str, Any]) -> bool:
        """Take the session's next event; returns whether the turn has ended."""
        known = _known(event)
        if self._turn.end is None and known is not None and self._turn.concerns(known):
            self.events.append(event)
            self._turn = self._turn.after(known)
            if isinstance(known, MessageEvent):
                self.answer = known.content
                self._drop_deltas(known.step)
        return self._turn.end is not None

    def _drop_deltas(self, step: int) -> None:
        """The message says all that its deltas said."""
        kinds = ("content", "thinking")
        self.events = [e for e in self.events if not (e["type"] in kinds and e.get("step") == step)]

    def result(self, session: str) -> dict[str, Any]:
        """What `POST /v1/messages?wait` answers at the turn's end."""
        return {
            "session_id": session,
            "message_id": self._turn.message_id,
            "task_id": self.task_id,
            "status": self.status,
            "answer": self.answer,
            "events": self.events,
        }


def _known(event: Mapping[str, Any]) -> SessionEvent | None:
    """None for an event of a later version."""
    try:
        return event_adapter.validate_python(event)
    except ValidationError:
        return None
