"""Events that the gateway sends to one client only, outside the session's stream."""

from collections.abc import Mapping
from secrets import token_hex
from time import time_ns
from typing import Any

from pydantic_core import to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent
from pentad.contracts.ids import rfc3339
from pentad.shared.keys import SessionKeys


def error_event(keys: SessionKeys, code: ErrorCode, message: str, in_doubt: bool = False, **more: Any) -> str:
    """Return an ``error`` event for one client as JSON, without a cursor and with this process's time.

    Redis, which gives cursors and times, may be unavailable. ``in_doubt``: the client's request may have been carried
    out all the same. ``more``: the event's ``message_id`` and ``retry_after``.
    """
    event = ErrorEvent(
        event_id=token_hex(16),
        at=rfc3339(time_ns() // 1_000_000),
        tenant_id=keys.tenant,
        session_id=keys.session,
        code=code,
        message=message,
        **more,
    )
    if not in_doubt:
        return event.to_json().decode()
    return as_text(event.model_dump(mode="json", exclude_none=True) | {"in_doubt": True})


def as_text(body: Mapping[str, Any]) -> str:
    """Return an object as compact JSON."""
    return to_json(body).decode()
