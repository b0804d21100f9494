"""Input that a server needs of a person before it goes on with a call: the question, and the answer as it wants it.

The protocol of 2026-07-28 has no way back from server to client: a call ends with what the server needs and a state of
its own, and is made again with the answer and the state, hours later too, by whichever client.
"""

from hashlib import sha256
from typing import Any

from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
)
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json

from pentad.contracts.suspensions import MAX_MESSAGE, MAX_STATE, Resumption, Suspension
from pentad.shared.clipping import plain

_MAX_REQUESTS = 8
"""Questions of one call that are asked together."""
_MAX_FORM = 32 * 1024
"""Bytes of the form of one call."""
_MAX_ADDRESS = 2_000
"""Characters of an address that a person is asked to open."""
_STATE_LOST = "invalid_request_state"
"""Reason with which the official SDK refuses a state."""
EMPTY_FORM: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""Form of a question to which going on is the answer."""


class CannotAskError(ValueError):
    """A person cannot be asked for what a server needs. The text says why."""


class _State(BaseModel):
    """State of a suspended call: that of the server, and the questions that were asked."""

    model_config = ConfigDict(frozen=True)

    state: str | None = None
    asked: dict[str, bool]
    """Questions by the server's own keys, each with whether it has a form."""
    question: str = ""
    """Digest of what the person was asked, in words and form."""


def suspension_of(result: InputRequiredResult) -> Suspension:
    """Return the question to a person that a server's answer is. Raises ``CannotAskError``."""
    requests = result.input_requests or {}
    if len(requests) > _MAX_REQUESTS:
        raise CannotAskError(f"the server asks {len(requests)} questions at once, the limit is {_MAX_REQUESTS}")
    asked = {key: _question(request) for key, request in requests.items()}
    form = _form({key: form for key, (_, form) in asked.items()})
    if len(to_json(form)) > _MAX_FORM:
        raise CannotAskError(f"the server's form has more than {_MAX_FORM:,} bytes")
    message = "\n".join(text for text, _ in asked.values())[:MAX_MESSAGE]
    state = _State(
        state=result.request_state,
        asked={key: form is not None for key, (_, form) in asked.items()},
        question=sha256(to_json([message, form])).hexdigest(),
    )
    kept = state.model_dump_json()
    if len(kept) > MAX_STATE:
        raise CannotAskError(f"the server's state has more than {MAX_STATE:,} characters")
    return Suspension(
        needs="input", message=message or "the server needs to know whether to go on", form=form, state=kept
    )


def _question(request: InputRequest) -> tuple[str, dict[str, Any] | None]:
    """Return a question in words, and its form; None where going on is the answer. Raises ``CannotAskError``."""
    if not isinstance(request, ElicitRequest):
        raise CannotAskError(f"the server asks for {plain(request.method, 100)}, which is not offered to servers")
    params = request.params
    if isinstance(params, ElicitRequestFormParams):
        return plain(params.message, MAX_MESSAGE), params.requested_schema
    if len(params.url) > _MAX_ADDRESS:
        raise CannotAskError(f"the server's address to open has more than {_MAX_ADDRESS:,} characters")
    return f"{plain(params.message, MAX_MESSAGE)} (open {plain(params.url, _MAX_ADDRESS)}, then go on)", None


def _form(forms: dict[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return the one form of all questions: that of the only one, or an object with each under its key."""
    asked = {key: form for key, form in forms.items() if form is not None}
    if not asked:
        return EMPTY_FORM
    if len(asked) == 1:
        return next(iter(asked.values()))
    return {"type": "object", "properties": asked, "required": [*asked], "additionalProperties": False}


def is_state_lost(data: Any) -> bool:
    """Return whether an error of the protocol says that the server knows the state no more: it was restarted, or the
    person has answered too late for it."""
    return isinstance(data, dict) and data.get("reason") == _STATE_LOST


def same_answer(result: InputRequiredResult, resumed: Resumption) -> Resumption | None:
    """Return the person's answer with the server's new state; None where the server asks another question now."""
    try:
        before, now = _State.model_validate_json(resumed.state), suspension_of(result)
    except (ValidationError, CannotAskError):
        return None
    if not before.question or _State.model_validate_json(now.state).question != before.question:
        return None
    return resumed.model_copy(update={"state": now.state})


def answered(params: CallToolRequestParams, resumed: Resumption) -> CallToolRequestParams:
    """Return the call with a person's answer. Raises ``CannotAskError`` for one that the server cannot be given."""
    try:
        state = _State.model_validate_json(resumed.state)
        forms, content = [key for key, has_form in state.asked.items() if has_form], resumed.content or {}
        answers: dict[str, InputResponse] = {}
        for key in state.asked:
            if not resumed.accepted:
                answers[key] = ElicitResult(action="decline")
            elif key not in forms:
                answers[key] = ElicitResult(action="accept")
            else:
                answers[key] = ElicitResult(action="accept", content=content if len(forms) == 1 else content[key])
    except (ValidationError, KeyError):
        raise CannotAskError("the answer is of a form that the protocol does not carry") from None
    return params.model_copy(update={"input_responses": answers or None, "request_state": state.state})
