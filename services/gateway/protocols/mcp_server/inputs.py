"""Questions to a person in the middle of a tool call of MCP, and the answers to them. Pure.

The state that a client hands back names a turn and its calls. It is no secret and gives no right: it is read like any
argument, and whoever sends it needs the key all the same.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.ids import ExternalId, Identifier
from pentad.contracts.turn_states import TurnState
from pentad.contracts.turns import ASKED
from pentad.services.gateway.domain.approval import AskedDecision, read_decision
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable

_MAX_STATE = 16_384
"""Characters of a state that are read."""
_MAX_QUESTIONS = 16
"""Tool calls that are asked about together."""
_MAX_SHOWN_ARGS = 4_000
"""Bytes of a tool call's arguments that a person is shown."""
_ANSWER = "answer"
"""Key of the answer to a task's question."""
_PLAIN_TYPES = frozenset({"string", "number", "integer", "boolean"})
_KEPT_KEYWORDS = ("type", "title", "description", "enum", "minLength", "maxLength", "minimum", "maximum", "default")
"""Keywords of a form's field that every client of MCP understands."""
_DECISION_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "title": "Allow the call"},
        "reason": {"type": "string", "title": "Reason", "description": "told to the model with a refusal"},
        "args": {
            "type": "string",
            "title": "Other arguments",
            "description": "a JSON object with which the call is made instead; empty: as it was asked for",
        },
    },
    "required": ["approved"],
}
_ANSWER_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {_ANSWER: {"type": "string", "title": "Answer", "minLength": 1}},
    "required": [_ANSWER],
}


class AskedCall(BaseModel):
    """A tool call that a person was asked about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Identifier
    digest: str = Field(max_length=64)
    """Digest of the arguments that the person has seen: a decision is about them alone."""
    form: bool = False
    """Whether the person fills a form of the tool, whose values are the decision's arguments."""


class AskedState(BaseModel):
    """The state between a tool call's question and its answer. Without calls its task waits for a message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: ExternalId
    message: ExternalId
    """Message whose turn waits."""
    task: Identifier
    calls: list[AskedCall] = Field(default_factory=list, max_length=_MAX_QUESTIONS)

    @property
    def answer_id(self) -> str:
        """Id of the message that answers the question of this turn: the same answer sent again is the same message."""
        return f"m-{sha256(f'{self.session}/{self.message}'.encode()).hexdigest()[:24]}"

    def written(self) -> str:
        """Return the state in the form that clients hand back."""
        return urlsafe_b64encode(self.model_dump_json().encode()).decode()


@immutable
class PersonsQuestion:
    """A question to a person: the text, and the JSON schema of the form."""

    message: str
    form: dict[str, Any]


@immutable
class PersonsReply:
    """The reply of a person to a question."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any]


def read_state(text: str) -> AskedState:
    """Read the state that a client hands back. Raises ``UnreadableError``."""
    try:
        if len(text) > _MAX_STATE:
            raise ValueError
        return AskedState.model_validate_json(urlsafe_b64decode(text.encode()))
    except (ValueError, ValidationError):
        raise UnreadableError(
            "requestState: it is none that this server has given. Call the tool again without it"
        ) from None


def questions_of(state: TurnState) -> tuple[AskedState, dict[str, PersonsQuestion]] | None:
    """Return what a turn asks a person, by key, and the state to hand back; None where no form can ask it."""
    if state.status != "waiting" or state.task_id is None:
        return None
    turn = AskedState(session=state.session_id, message=state.message_id, task=state.task_id)
    if state.waiting:
        fits = [each for each in state.waiting if each.form is None or _plain_form(each.form) is not None]
        calls = [AskedCall(id=each.tool_call_id, digest=each.args_digest, form=each.form is not None) for each in fits]
        asked = {each.tool_call_id: _about(each) for each in fits[:_MAX_QUESTIONS]}
        return (turn.model_copy(update={"calls": calls[:_MAX_QUESTIONS]}), asked) if asked else None
    if state.reason != ASKED:
        return None
    return turn, {_ANSWER: PersonsQuestion(state.answer or "The task waits for an answer.", _ANSWER_FORM)}


def _about(call: PendingApproval) -> PersonsQuestion:
    if call.form is not None:
        return PersonsQuestion(call.reason or f"{call.tool} needs this to go on", _plain_form(call.form) or {})
    args = clip(to_json(call.args).decode(errors="replace"), _MAX_SHOWN_ARGS)
    return PersonsQuestion(f"{call.reason or 'A tool call waits to be allowed.'}\n{call.tool}({args})", _DECISION_FORM)


def _plain_form(form: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a form with fields that clients of MCP can show; None for one that needs more than plain fields."""
    fields = form.get("properties", {})
    if not isinstance(fields, dict):
        return None
    if not all(isinstance(field, dict) and field.get("type") in _PLAIN_TYPES for field in fields.values()):
        return None
    plain = {name: {word: field[word] for word in _KEPT_KEYWORDS if word in field} for name, field in fields.items()}
    required = [name for name in form.get("required", ()) if name in plain]
    return {"type": "object", "properties": plain} | ({"required": required} if required else {})


def decisions_of(asked: AskedState, replies: Mapping[str, PersonsReply]) -> list[tuple[str, AskedDecision]]:
    """Return the decisions that a person has made, each with its tool call. Raises ``UnreadableError``.

    Whoever declines refuses the call; who closes the question has not decided.
    """
    made = []
    for call in asked.calls:
        reply = replies.get(call.id)
        if reply is not None and reply.action != "cancel":
            made.append((call.id, _decision(call, reply)))
    return made


def _decision(call: AskedCall, reply: PersonsReply) -> AskedDecision:
    if reply.action == "decline":
        return read_decision({"approved": False})
    if call.form:
        return read_decision({"approved": True, "args": dict(reply.content), "args_digest": call.digest})
    given = {name: value for name, value in reply.content.items() if value not in (None, "")}
    if args := given.pop("args", None):
        given["args"] = _object(args)
    if given.get("approved") is False:
        given.pop("args", None)
    return read_decision(given | {"args_digest": call.digest})


def _object(text: Any) -> Any:
    try:
        return from_json(text)
    except (TypeError, ValueError):
        raise UnreadableError("args: a JSON object is expected, or nothing") from None


def text_of_answer(replies: Mapping[str, PersonsReply]) -> str | None:
    """Return the text that answers a task's question; None if the person has given none. Raises ``UnreadableError``."""
    reply = replies.get(_ANSWER)
    if reply is None or reply.action != "accept":
        return None
    text = reply.content.get(_ANSWER)
    if not isinstance(text, str) or not 1 <= len(text) <= MAX_CONTENT:
        raise UnreadableError(f"{_ANSWER}: a text of 1 to {MAX_CONTENT} characters is expected")
    return text
