"""The events of one commit: numbered under its step id, and each says whose it is and why it exists (law 9)."""

from collections.abc import Mapping
from typing import Any

from pentad.shared.actors.commit import Commit
from pentad.shared.keys import SessionKeys


class CommitEvents:
    """Makes the envelopes of a commit's events."""

    def __init__(self, commit: Commit, session: SessionKeys, at: str) -> None:
        self.commit, self.session = commit, session
        self.at = at
        """When the events happen that are added from now on."""
        self._count = 0

    def stamp(self, why: Mapping[str, Any]) -> dict[str, Any]:
        """The next event's envelope. ``why``: its task, what caused it and what bounds it."""
        self._count += 1
        return {
            "event_id": f"{self.commit.step_id}.{self._count}",
            "at": self.at,
            "tenant_id": self.session.tenant,
            "session_id": self.session.session,
            **why,
        }
