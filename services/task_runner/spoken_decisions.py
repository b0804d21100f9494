"""A person's message as the decision about the one call that waits: yes, no, or the value that its form asks for."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.ids import milliseconds
from pentad.contracts.plain_json import read_json
from pentad.shared.actors.approvals import KeptRequest
from pentad.shared.actors.mail import ApprovalMail, UserMail
from pentad.shared.json_schema import OPEN_KEYWORDS, WrongSchema, compile_schema, schema_weight

_MOST_CHARACTERS = 4_000
"""Characters of a message that may be a decision; a longer one is none."""
_YES = frozenset(
    "yes y yep yeah ok okay sure approve approved allow allowed confirm confirmed ja oui si sí".split()
) | frozenset("是 是的 好 好的 可以 同意 批准 行 确认".split())
_YES |= {"go ahead", "do it", "yes please", "yes do it", "yes go ahead"}
_NO = frozenset("no n nope refuse refused deny denied reject rejected nein non".split())
_NO |= frozenset("不 不是 不行 不要 不可以 不同意 拒绝 否 别".split())
_NO |= {"no thanks", "no thank you", "do not", "don't", "don't do it", "do not do it"}
_MARKS = re.compile(r"[\s.,!。！，、]+")
BY_SESSION = "session"
"""Stands for who decided where the message names no user."""


def spoken_decision(messages: Sequence[UserMail], call: str, request: KeptRequest) -> ApprovalMail | None:
    """Return the decision that the first of these messages makes that makes one; None when none does.

    A message decides that came after the question, and whose sender may decide.
    """
    for mail in messages:
        message = mail.message
        if message.decides is False or milliseconds(mail.at) < request.asked_at:
            continue
        if not request.may_decide(message.user_id):
            continue
        if len(message.content) <= _MOST_CHARACTERS and (said := _read(message.content, request)) is not None:
            approved, args = said
            by = message.user_id or BY_SESSION
            return ApprovalMail(tool_call_id=call, approved=approved, by=by, args=args, spoken=True)
    return None


def _read(text: str, request: KeptRequest) -> tuple[bool, dict[str, Any] | None] | None:
    """Return whether this text allows the call, and the values that it gives; None when it says neither."""
    words = _MARKS.sub(" ", text).strip().casefold()
    if not request.is_form:
        return (True, None) if words in _YES else (False, None) if words in _NO else None
    for value in _readings(text.strip(), words, request.parameters):
        if _fits(value, request.parameters):
            return True, value
    if not request.parameters.get("properties"):  # nothing is asked for but whether the call may go on
        return (True, {}) if words in _YES else (False, None) if words in _NO else None
    return None


def _readings(text: str, words: str, form: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the text may mean as the values of a form: its JSON, or the one value that the form must have."""
    found: list[dict[str, Any]] = []
    if text.startswith("{"):
        try:
            read = read_json(text.encode())
        except ValueError:
            return found
        return [read] if isinstance(read, dict) else found
    properties = form.get("properties")
    if not isinstance(properties, Mapping):
        return found
    required = form.get("required")
    asked = [*required] if isinstance(required, list) else [*properties]
    if len(asked) != 1 or not isinstance(asked[0], str):
        return found
    values: list[Any] = [text, words]
    if words in _YES | _NO:
        values.append(words in _YES)
    if re.fullmatch(r"-?\d{1,15}", text):
        values.append(int(text))
    elif re.fullmatch(r"-?\d{1,15}\.\d{1,15}", text):
        values.append(float(text))
    return [{asked[0]: value} for value in values]


def _fits(value: Mapping[str, Any], form: Mapping[str, Any]) -> bool:
    if schema_weight(form, OPEN_KEYWORDS) is None:
        return False
    try:
        return bool(compile_schema(form, "the form").is_valid(dict(value)))
    except WrongSchema:
        return False
