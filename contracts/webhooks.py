"""Webhooks: addresses to which events of sessions are sent, as tenants register them."""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, StringConstraints, field_validator

from pentad.contracts.envelope import Contract
from pentad.contracts.events import EPHEMERAL, SessionEvent
from pentad.contracts.ids import ExternalId, Identifier
from pentad.contracts.receivers import MAX_URL_CHARS, ReceiverUrl, signing_key

MAX_WEBHOOK_BYTES = 16_384
"""Bytes that one webhook may have as JSON."""


def _types() -> frozenset[str]:
    kinds = get_args(get_args(SessionEvent)[0])
    return frozenset(kind.type_name() for kind in kinds) - EPHEMERAL - {"snapshot"}


WEBHOOK_EVENTS = _types()
"""Types of the events that a webhook can have: those that are written exactly once."""
ALL_EVENTS = "*"
"""The word for all types of `WEBHOOK_EVENTS`."""
CALLBACK_EVENTS: tuple[str, ...] = (
    "approval",
    "approval_request",
    "control_result",
    "error",
    "message",
    "message_routed",
    "task_end",
    "task_status",
)
"""Types of the events of a message's turn that its ``callback_url`` gets."""
CLIENT_CALLBACK_EVENTS: tuple[str, ...] = (*CALLBACK_EVENTS, "tool_call")
"""Types of the events that the ``callback_url`` of a message with tools gets: its owner must learn of their calls."""

PUSH_EVENTS: tuple[str, ...] = ("message", "task_end", "task_start", "task_status", "tool_result")
"""Types of a task's events that push notifications of A2A are made of."""


class WebhookRequest(Contract):
    """A request to register a webhook."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: ReceiverUrl
    events: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    session: ExternalId | None = None
    """Session whose events are sent; absent: those of all sessions of the tenant."""
    secret: Annotated[str, StringConstraints(max_length=128)]

    @field_validator("events")
    @classmethod
    def _are_types(cls, events: Sequence[str]) -> tuple[str, ...]:
        if strange := sorted(set(events) - WEBHOOK_EVENTS - {ALL_EVENTS}):
            raise ValueError(f"{strange[0][:64]!r} is no type of event; there are {', '.join(sorted(WEBHOOK_EVENTS))}")
        return (ALL_EVENTS,) if ALL_EVENTS in events else tuple(sorted(set(events)))

    @field_validator("secret")
    @classmethod
    def _is_secret(cls, secret: str) -> str:
        signing_key(secret)
        return secret


class PushTarget(Contract):
    """The part of a webhook that a client of A2A has asked for: the updates of one task, in A2A's form."""

    task_id: Identifier
    config_id: str = Field(min_length=1, max_length=128)
    """Id under which the client knows it."""
    address: str = Field(max_length=MAX_URL_CHARS)
    """Address of the gateway, as the client reaches it: files are named by it."""
    scheme: str | None = None
    """Scheme of the authentication, which is shown."""
    headers: str | None = Field(default=None, repr=False)
    """Token and credentials as headers, in JSON: sealed where there is a key, and never shown."""


class Webhook(Contract):
    """A webhook as it is kept: one that was registered, the callback of one message, or of one task for A2A."""

    id: str = Field(min_length=1, max_length=4_096)
    tenant_id: Identifier
    url: ReceiverUrl
    events: tuple[str, ...]
    session_id: ExternalId | None = None
    secret: str | None = Field(default=None, repr=False)
    """Secret as it is kept: sealed where there is a key to seal it. Absent: the callback of a message is not signed."""
    created_ms: int
    """Time of the registration, which is that of the shards: earlier events are not sent."""
    message_id: ExternalId | None = None
    """Message whose turn's events a callback gets; absent: the webhook was registered."""
    push: PushTarget | None = None
    """The task whose updates a client of A2A gets; absent: events are sent in the form of Standard Webhooks."""
    gone: str | None = None
    """Why nothing is sent any more, though it is registered: its server has said that it is gone."""

    def wants(self, kind: str) -> bool:
        """Return whether it gets events of this type."""
        return kind in self.events or (ALL_EVENTS in self.events and kind in WEBHOOK_EVENTS)

    def shown(self) -> dict[str, Any]:
        """Return the webhook as lists show it: never with its secret."""
        return {"id": self.id, "url": self.url, "events": list(self.events), "session_id": self.session_id}


class WebhookDelivery(Contract):
    """An event that was not delivered to a webhook, as its dead letter keeps it; sent again, it is delivered anew."""

    webhook_id: str = Field(min_length=1, max_length=4_096)
    entry: str = Field(default="0-0", pattern=r"^[0-9]{1,20}-[0-9]{1,20}$")
    """Cursor of the event in its session."""
    event: dict[str, Any]
