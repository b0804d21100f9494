"""Decisions about webhooks: what a body registers, which events a callback gets, when one is tried again. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from pentad.contracts.events import MessageEvent, ToolResultEvent
from pentad.contracts.turns import ASKED, TurnTracker
from pentad.contracts.webhooks import Webhook, WebhookRequest
from pentad.services.gateway.domain.frames import UnreadableError, complaints
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.shared.immutable import immutable

GIVE_UP_MS = 86_400_000
"""Milliseconds after which an event that could not be delivered becomes a dead letter."""
MAX_PAUSE_S = 3_600.0
"""Seconds between two attempts at most."""
_PAUSES_S = (2.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1_800.0)
"""Seconds after the first failures until the next attempt."""
_JITTER = 0.2
"""Part of a pause by which it varies, so that receivers are not asked by all at once."""
_NEEDED = {MessageEvent.type_name(): "content", ToolResultEvent.type_name(): "artifacts"}
"""Fields without which an event is no update of a task for A2A, by the event's type."""
_GONE, _OK, _OK_END = 410, 200, 300


def read_webhook(body: Mapping[str, Any]) -> WebhookRequest:
    """Read a request to register a webhook. Raises ``UnreadableError``, which repeats no value."""
    try:
        return WebhookRequest.model_validate(body)
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None


class CallbackTurn:
    """The turn of a message with a callback: which events belong to it, and whether more can come.

    A turn that waits for a decision goes on; one that asks the person ends, since the answer is another message.
    """

    def __init__(self, message_id: str) -> None:
        self._turn = TurnTracker(message_id)

    @property
    def over(self) -> bool:
        """Whether the turn has ended for good."""
        end = self._turn.end
        return end is not None and (end.outcome != "waiting" or end.reason == ASKED)

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Process the session's next event, and return whether it belongs to the turn."""
        known = known_event(event)
        if self.over or known is None:
            return False
        turn = replace(self._turn, end=None)
        if not turn.concerns(known):
            return False
        self._turn = turn.after(known)
        return True


class PushedTask:
    """The updates of a task that a client of A2A gets, for as long as the task is kept."""

    over = False
    """Whether no more can come: that is known by the task's keys, not by its events."""

    def __init__(self, task_id: str) -> None:
        self._task = task_id

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Return whether the session's next event is an update: no step without text, no result without files."""
        needed = _NEEDED.get(str(event.get("type")))
        return event.get("task_id") == self._task and (needed is None or bool(event.get(needed)))


@immutable
class AskedPush:
    """A wish to get the updates of a task, as a client of A2A has sent it."""

    config_id: str
    """Id under which the client wants to know it; '' for that of the task."""
    url: str
    scheme: str | None
    headers: Mapping[str, str]
    """Token and credentials, as headers of what is sent."""
    address: str
    """Address of the gateway, as the client reaches it."""


@immutable
class WaitingEvent:
    """An event on its way to a webhook, as its lane holds it."""

    entry: str
    """Cursor of the event in its session."""
    since_ms: int
    """Time at which it was put on its way, on the clock of Redis."""
    event: bytes


def read_waiting(item: bytes) -> WaitingEvent:
    """Return the event in an item of a lane: ``CURSOR MS JSON``. Raises ``ValueError``."""
    entry, since, event = item.split(b" ", 2)
    return WaitingEvent(entry.decode(), int(since), event)


def delivery_id(webhook: str, lane: str, entry: str, event_id: str) -> str:
    """Return the id of a delivery: the same in each attempt, another for each webhook and event."""
    return f"msg_{hashlib.sha256(' '.join((webhook, lane, entry, event_id)).encode()).hexdigest()[:32]}"


def delivery_body(entry: str, event: Mapping[str, Any]) -> bytes:
    """Return the body of a delivery, in the form of Standard Webhooks: type, time and data, which is the event."""
    data = {**event, "id": entry}
    return to_json({"type": event.get("type"), "timestamp": event.get("at"), "data": data})


@immutable
class NextAttempt:
    """A decision to try again after so many milliseconds."""

    after_ms: int


@immutable
class Outcome:
    """The answer of a webhook's server, or why there is none. ``status``: 0 where there is none."""

    status: int
    why: str
    retry_after: str = ""

    @property
    def delivered(self) -> bool:
        """Whether the server has taken the event."""
        return _OK <= self.status < _OK_END

    @property
    def gone(self) -> bool:
        """Whether the server wants nothing more."""
        return self.status == _GONE


def next_attempt(outcome: Outcome, failures: int, age_ms: int, chance: float) -> NextAttempt | None:
    """Return when an event is tried again that has failed; None: not any more. ``failures``: those before this one.

    ``chance``: a random number from 0 to 1.
    """
    if outcome.gone or age_ms >= GIVE_UP_MS:
        return None
    pause_s = _PAUSES_S[failures] if failures < len(_PAUSES_S) else MAX_PAUSE_S
    pause_s *= 1 + _JITTER * (chance - 0.5)
    asked = outcome.retry_after.strip()
    if asked.isascii() and asked.isdigit() and len(asked) < 10:
        pause_s = max(pause_s, float(asked))
    return NextAttempt(min(round(min(pause_s, MAX_PAUSE_S) * 1000), max(1000, GIVE_UP_MS - age_ms)))


def shown_webhook(webhook: Webhook, created_at: str, waiting: int, error: str | None) -> dict[str, Any]:
    """Return a webhook as its list shows it. ``error``: why the last event that waits was not taken."""
    state = {"created_at": created_at, "disabled": webhook.gone, "waiting": waiting, "error": error}
    return webhook.shown() | state
