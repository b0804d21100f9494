"""A payload as both stores keep it: one object of JSON, the fields that are filtered by at its top. Pure."""

from typing import Any

from pentad.shared.errors import DamagedError, MemoryRefusedError
from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.vectors.points import Payload

KEYWORDS = ("tenant", "user", "kind", "type", "task", "session")
"""Fields with an index of words. ``tenant`` goes first."""
NUMBERS = ("at",)
"""Fields with an index of whole numbers."""


def to_stored(payload: Payload) -> dict[str, Any]:
    """What the store keeps."""
    return {
        "tenant": payload.owner.tenant,
        "user": payload.owner.holder or TENANT_HOLDER,
        "kind": payload.kind,
        "type": payload.type,
        "task": payload.task,
        "session": payload.session,
        "position": payload.position,
        "at": payload.at,
        "importance": payload.importance,
        "anchor": payload.anchor,
        "text": payload.text,
        "details": payload.details,
    }


def from_stored(identifier: str, stored: Any) -> Payload:
    """What was kept. Raises ``DamagedError`` for what nobody of ours has written."""
    try:
        kept = dict(stored)
        owner = Owner.of_holder(kept.pop("tenant"), kept.pop("user"))
        return Payload(owner=owner, **kept)
    except (KeyError, TypeError, ValueError, MemoryRefusedError) as error:
        raise DamagedError(f"point {identifier} of the memory cannot be read: {error!r}") from None
