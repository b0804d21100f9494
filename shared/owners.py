"""The owner of a memory: a user, a session or a whole tenant."""

from typing import Self

from pentad.contracts.ids import is_external_id, is_identifier
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.immutable import immutable

TENANT_HOLDER = ""
"""The holder of memories that all users of a tenant share, as stores keep it."""
_SESSION = "/"
"""Begins the holder of a session's memories. No id has a slash, so no user is ever taken for a session."""


def session_holder(session: str) -> str:
    """Return the holder of memories that belong to this session alone."""
    return f"{_SESSION}{session}"


def is_holder(holder: str) -> bool:
    """Whether this is the holder of a user's or a session's memories."""
    return is_external_id(holder.removeprefix(_SESSION))


@immutable
class Owner:
    """Who owns a memory, or who reads: a user of a tenant, one of its sessions, or the tenant itself.

    A memory has one holder: the user who is named, else the session in which it was said, else nobody, and then all
    users of the tenant share it. A reader sees what is shared, what is the user's who is named, and what belongs to the
    session that is named. Raises ``MemoryRefusedError`` for what is no id: no query can be made without a tenant.
    """

    tenant: str
    user: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        if not is_identifier(self.tenant) or not all(map(is_external_id, filter(None, (self.user, self.session)))):
            raise MemoryRefusedError(
                f"{self.tenant!r}, {self.user!r}, {self.session!r}: no identifiers of a tenant, a user and a session"
            )

    @classmethod
    def of_holder(cls, tenant: str, holder: str | None) -> Self:
        """Return the owner whose `holder` this is; None or empty: the tenant."""
        if holder and holder.startswith(_SESSION):
            return cls(tenant, None, holder.removeprefix(_SESSION))
        return cls(tenant, holder or None)

    @property
    def holder(self) -> str | None:
        """The holder of this owner's memories, as stores keep it; None when the tenant shares them."""
        if self.user is not None:
            return self.user
        return None if self.session is None else session_holder(self.session)

    @property
    def holders_seen(self) -> tuple[str, ...]:
        """The holders whose memories this owner may read; `TENANT_HOLDER` is the first of them."""
        session = None if self.session is None else session_holder(self.session)
        return TENANT_HOLDER, *filter(None, (self.user, session))

    def sees(self, holder: str | None) -> bool:
        """Whether a memory of this holder, of the same tenant, may be shown to this owner."""
        return (holder or TENANT_HOLDER) in self.holders_seen
