"""Selections of points. Each names a tenant."""

from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Dense, Sparse, SparseVector


class Whose(StrEnum):
    """Ownership of the selected points within the tenant."""

    SEEN = "seen"
    """Points that the owner may see: shared ones, and those of the user and the session that the owner names."""
    OWN = "own"
    """Points that the owner alone holds; shared ones where the owner names neither user nor session."""
    ALL = "all"
    """All points of the tenant: for erasing and counting, never for showing."""


@immutable
class Selection:
    """A selection of points that meet every condition; an empty condition is not checked."""

    owner: Owner
    whose: Whose = Whose.SEEN
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: int | None = None
    """The first millisecond that is selected."""
    until: int | None = None
    """The first millisecond that is no longer selected."""
    ids: tuple[str, ...] | None = None
    """Ids of the selected points. None: any id; empty: no point."""

    def means(self, owner: Owner) -> bool:
        """Whether the selection includes points of this owner."""
        if owner.tenant != self.owner.tenant:
            return False
        if self.whose is Whose.SEEN:
            return self.owner.sees(owner.holder)
        return self.whose is Whose.ALL or owner.holder == self.owner.holder


@immutable
class DenseQuery:
    """A query for the points whose vector of this name is nearest."""

    vector: tuple[float, ...]
    using: Dense
    selection: Selection
    limit: int


@immutable
class SparseQuery:
    """A query for the points whose shared terms weigh most; a point that shares no term is no hit."""

    vector: SparseVector
    using: Sparse
    selection: Selection
    limit: int


VectorQuery = DenseQuery | SparseQuery
