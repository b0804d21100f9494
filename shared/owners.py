"""Whose a memory is."""

from pentad.contracts.ids import is_external_id, is_identifier
from pentad.shared.errors import MemoryRefusedError
from pentad.shared.immutable import immutable


@immutable
class Owner:
    """A tenant, or one user of it; ``user`` None: what is nobody's in particular, and seen by all the tenant's users.

    An owner that reads sees what is his own and what is nobody's. Raises ``MemoryRefusedError`` for names that are no
    identifiers: no query can be made without a tenant.
    """

    tenant: str
    user: str | None = None

    def __post_init__(self) -> None:
        if not is_identifier(self.tenant) or not (self.user is None or is_external_id(self.user)):
            raise MemoryRefusedError(f"{self.tenant!r}, {self.user!r}: no identifiers of a tenant and a user")

    def sees(self, user: str | None) -> bool:
        """Whether a memory of this user of the same tenant may be shown to this owner."""
        return user is None or user == self.user
