"""Whose texts are embedded, and why (law 9)."""

from typing import Any

from pentad.shared.immutable import immutable


@immutable
class Requester:
    """For whom vectors are wanted. Its shard carries the request."""

    shard: int
    tenant: str
    session: str
    task: str | None = None
    correlation: str | None = None
    """``message_id`` of the user's message whose turn this belongs to."""
    cause: str | None = None
    """What made this directly: a step, an inbound entry."""
    cached_for: str | None = None
    """Who shares the cached vectors of these texts; None: the session."""

    def fields(self) -> dict[str, Any]:
        """As an envelope has them."""
        return {
            "tenant_id": self.tenant,
            "session_id": self.session,
            "task_id": self.task,
            "correlation_id": self.correlation,
            "causation_id": self.cause,
            "cached_for": self.cached_for,
        }
