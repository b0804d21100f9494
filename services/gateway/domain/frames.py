"""Reading of clients' frames and bodies. Pure."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from pentad.contracts.approvals import PolicyQuestion
from pentad.contracts.commands import MAX_CONTENT, NEW_TASK, InboundMessage
from pentad.contracts.plain_json import read_json
from pentad.contracts.tokens import TokenRequest
from pentad.shared.errors import PentadError
from pentad.shared.kinds import ControlKind

_CONTROLS: tuple[ControlKind, ...] = get_args(ControlKind)
_COMMANDS = frozenset({"message", "ping", "move", "approve", "result", *_CONTROLS})
_RUN_FIELDS = frozenset(
    {
        "input",
        "session_id",
        "user_id",
        "message_id",
        "metadata",
        "deadline",
        "budget",
        "output_schema",
        "state",
        "files",
        "tools",
    }
)


def control_of(command: str) -> ControlKind | None:
    """Return the kind of control that a command asks of a task; None for a command of another kind."""
    return next((kind for kind in _CONTROLS if kind == command), None)


class UnreadableError(PentadError):
    """A client's request cannot be read; the text says why. The same request would fail again."""


def read_object(raw: bytes | str) -> dict[str, Any]:
    """Read a JSON object. Raises ``UnreadableError``."""
    try:
        body = read_json(raw)
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UnreadableError("a JSON object is expected")
    return body


def read_message(body: Mapping[str, Any], tenant: str, session: str, message_id: str) -> InboundMessage:
    """Read a user's message. Raises ``UnreadableError``.

    ``tenant`` and ``session`` replace those in the body. ``message_id`` is used if the client gave none.
    """
    given = {name: value for name, value in body.items() if name != "version" and value is not None}
    ours = {"tenant_id": tenant, "session_id": session}
    try:
        return InboundMessage.model_validate({"message_id": message_id, **given, **ours})
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None


def read_run(body: Mapping[str, Any], instruction: str) -> dict[str, Any]:
    """Return the body of the message that runs an instruction with this input. Raises ``UnreadableError``."""
    if unknown := sorted(set(body) - _RUN_FIELDS):
        raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(sorted(_RUN_FIELDS))}")
    text = body.get("input")
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_CONTENT:
        raise UnreadableError(f"input: a text of 1 to {MAX_CONTENT} characters is expected")
    message = {name: value for name, value in body.items() if name != "input"}
    if message.get("output_schema") is not None:
        message["task_id"] = NEW_TASK
    return message | {"content": text, "instruction": instruction}


_MAX_MISTAKES = 100
"""Mistakes of a body that are looked at: each costs time."""


def read_token_request(body: Mapping[str, Any]) -> TokenRequest:
    """Read a request for an access token. Raises ``UnreadableError``."""
    try:
        return TokenRequest.model_validate(body)
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None


def read_policy_question(body: Mapping[str, Any]) -> PolicyQuestion:
    """Read a question what the policies say about a tool call. Raises ``UnreadableError``."""
    try:
        return PolicyQuestion.model_validate(body)
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None


def complaints(error: ValidationError) -> list[str]:
    """Return the mistakes of a validation error without the values, at most five; of very many only their number."""
    if error.error_count() > _MAX_MISTAKES:
        return [f"{error.error_count():,} fields are wrong or not known here: send those of this request alone"]
    return [
        f"{'.'.join(map(str, e['loc']))[:100]}: {e['msg'].removeprefix('Value error, ')[:300]}"
        for e in error.errors(include_input=False, include_url=False)[:5]
    ]


def command_of(frame: Mapping[str, Any]) -> str:
    """Return the type of a client's frame. Raises ``UnreadableError`` for a type that this version does not support."""
    kind = frame.get("type")
    if not isinstance(kind, str) or kind not in _COMMANDS:
        raise UnreadableError(f"type must be one of {', '.join(sorted(_COMMANDS))}")
    return kind
