"""The answer of an HTTP endpoint as the outcome of a call, and whether it is asked again. Pure."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from pentad.contracts.tools import Artifact, Effect, ToolOutcome
from pentad.services.tool_worker.builtins.web.page_text import has_text, media_type, read_page
from pentad.services.tool_worker.domain import unknown
from pentad.services.tool_worker.tool_value import value_of
from pentad.shared.clipping import clip
from pentad.shared.outbound.outside_client import OutsideAnswer
from pentad.shared.plugins.errors import UnusableResult

MAX_REASON_BYTES = 4_096
"""Bytes of the body of a failure that the model is told."""
_BUSY_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_LOSING_STATUSES = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses of a proxy that has lost the answer of the server behind it: the call may have been made."""


def outcome_of(
    tool: str, answer: OutsideAnswer, effect: Effect, secrets: Mapping[str, str], call: str | None
) -> ToolOutcome:
    """Return the outcome that an answer is, without the secrets of its request.

    ``call``: the id of the call whose files are kept; None: none are.
    """
    if not 200 <= answer.status < 300:
        said = clip(without_secrets(_text_of(answer).strip(), secrets), MAX_REASON_BYTES)
        told = f"{tool} answered {answer.status}{_phrase(answer.status)}{_hint(answer)}" + (f": {said}" if said else "")
        if effect is Effect.UNSAFE and answer.status in _LOSING_STATUSES:
            return unknown(1, f"{told}; the server behind it may have done it")
        return ToolOutcome("error", told)
    try:
        if answer.body and not has_text(answer.content_type):
            value = value_of(tool, Artifact(answer.body, "", media_type(answer.content_type) or None), call)
        else:
            value = value_of(tool, without_secrets(_text_of(answer), secrets), call)
    except UnusableResult as error:
        return ToolOutcome("error", str(error))
    cut = f"\n[cut: only the first {len(answer.body)} bytes of the answer were read]" if answer.is_cut else ""
    return ToolOutcome("ok", value.text + cut, made=value.artifacts)


def pause_of(answer: OutsideAnswer, now: float) -> float | None:
    """Return the seconds after which a server wants to be asked again; None where it does not.

    ``now``: seconds since 1970.
    """
    said = answer.retry_after.strip()
    if answer.status not in _BUSY_STATUSES or not said:
        return None
    if said.isascii() and said.isdecimal():
        return float(said[:9])
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text in which these secrets are not."""
    for name, secret in secrets.items():
        if secret and secret in text:
            text = text.replace(secret, f"[secret {name}]")
    return text


def _text_of(answer: OutsideAnswer) -> str:
    if not has_text(answer.content_type):
        return ""
    page = read_page(answer.body, answer.content_type, answer.url)
    return "" if page is None else page.text


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _hint(answer: OutsideAnswer) -> str:
    if 300 <= answer.status < 400:
        return ", which leads elsewhere: an operator registers the tool with the other address"
    return (
        f", try again after {clip(answer.retry_after, 40)}"
        if answer.status in _BUSY_STATUSES and answer.retry_after
        else ""
    )
