"""Which points are meant. There is none without a tenant."""

from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Dense, Sparse, SparseVector


class Whose(StrEnum):
    """Whose points of the tenant are meant."""

    SEEN = "seen"
    """What the owner may see: what the tenant shares, and what belongs to the user and the session that he names."""
    OWN = "own"
    """What the owner holds alone: what the tenant shares where the owner names neither user nor session."""
    ALL = "all"
    """The whole tenant's, whoever's they are: for erasing and counting, never for showing."""


@immutable
class Selection:
    """Points that meet every condition; an empty one is none."""

    owner: Owner
    whose: Whose = Whose.SEEN
    kinds: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: int | None = None
    """The first millisecond that is meant."""
    until: int | None = None
    """The first millisecond that is not meant any more."""
    ids: tuple[str, ...] | None = None
    """None: whatever their ids; empty: no point at all."""

    def means(self, owner: Owner) -> bool:
        """Whether points of this owner are among those that are meant."""
        if owner.tenant != self.owner.tenant:
            return False
        if self.whose is Whose.SEEN:
            return self.owner.sees(owner.holder)
        return self.whose is Whose.ALL or owner.holder == self.owner.holder


@immutable
class DenseQuery:
    """The points whose vector of this name is nearest."""

    vector: tuple[float, ...]
    using: Dense
    selection: Selection
    limit: int


@immutable
class SparseQuery:
    """The points whose terms weigh most; what shares no term is no hit."""

    vector: SparseVector
    using: Sparse
    selection: Selection
    limit: int


VectorQuery = DenseQuery | SparseQuery
