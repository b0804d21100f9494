"""Whose the points of an embedded collection are: a condition that all of them meet is left out of its searches.

Conditions cost a search up to ten times what the rest of it costs (docs/decisions/0022): each point that shares a word
with the question is looked up in two indexes, twice. Most embedded memories are of one tenant.
"""

from collections.abc import Callable, Iterable

from pentad.shared.immutable import immutable
from pentad.shared.owners import TENANT_HOLDER, Owner
from pentad.shared.vectors.selection import Selection, Whose

MOST = 1_000
"""Tenants, and holders of memories, that are kept: of a collection with more nothing is left out."""


@immutable
class Met:
    """Which conditions of a selection all points meet."""

    tenant: bool = False
    user: bool = False


UNKNOWN = Met()


class PresentOwners:
    """The owners of a collection's points, and maybe of some that were removed. Whoever writes points says so first.

    ``values``: tells up to so many values that a field of the points has; None when it cannot.
    """

    def __init__(self, values: Callable[[str, int], list[str] | None]) -> None:
        tenants, users = values("tenant", MOST + 1), values("user", MOST + 1)
        self._known = tenants is not None and users is not None
        self._tenants, self._users = set(tenants or ()), set(users or ())

    def add(self, owners: Iterable[Owner]) -> None:
        """Points of these are written."""
        for owner in owners:
            if len(self._tenants) <= MOST:
                self._tenants.add(owner.tenant)
            if len(self._users) <= MOST:
                self._users.add(owner.holder or TENANT_HOLDER)

    def meet(self, selection: Selection) -> Met:
        """What of a selection's owner no point has to be asked for."""
        if not self._known:
            return UNKNOWN
        return Met(self._tenants == {selection.owner.tenant}, self._users <= _users_of(selection))


def _users_of(selection: Selection) -> set[str]:
    """The holders whose points a selection names one by one."""
    owner = selection.owner
    return {owner.holder or TENANT_HOLDER} if selection.whose is Whose.OWN else {*owner.holders_seen}
