"""A condition is left out of a search only when every point meets it (decision 22)."""

import pytest

from pentad.shared.owners import Owner
from pentad.shared.vectors.edge_requests import MAX_PRESENT_OWNERS, NO_CONDITION_MET, MetConditions, PresentOwners
from pentad.shared.vectors.selection import Selection, Whose

ADA, BOB, ACME, OTHER = Owner("acme", "ada"), Owner("acme", "bob"), Owner("acme"), Owner("other", "ada")


def present(*owners: Owner) -> PresentOwners:
    there = PresentOwners(lambda _field, _most: [])
    there.add(owners)
    return there


@pytest.mark.parametrize(
    ("there", "asked", "met"),
    [
        ([ADA], Selection(ADA), MetConditions(tenant=True, user=True)),
        ([ADA, ACME], Selection(ADA), MetConditions(tenant=True, user=True)),
        ([ACME], Selection(ACME), MetConditions(tenant=True, user=True)),
        ([ADA, BOB], Selection(ADA), MetConditions(tenant=True, user=False)),
        ([ADA], Selection(ACME), MetConditions(tenant=True, user=False)),
        ([ADA, ACME], Selection(ADA, Whose.OWN), MetConditions(tenant=True, user=False)),
        ([ADA], Selection(ADA, Whose.OWN), MetConditions(tenant=True, user=True)),
        ([ADA, OTHER], Selection(ADA), MetConditions(tenant=False, user=True)),
        ([OTHER], Selection(ADA), MetConditions(tenant=False, user=True)),
        ([], Selection(ADA), MetConditions(tenant=False, user=True)),
    ],
)
def test_what_no_point_has_to_be_asked_for(there: list[Owner], asked: Selection, met: MetConditions) -> None:
    assert present(*there).meet(asked) == met


def test_values_that_cannot_be_told_leave_everything_in() -> None:
    there = PresentOwners(lambda field, _most: ["acme"] if field == "tenant" else None)
    there.add([ADA])
    assert there.meet(Selection(ADA)) is NO_CONDITION_MET


def test_many_users_are_not_kept_and_leave_the_condition_in() -> None:
    there = present(*(Owner("acme", f"user-{n}") for n in range(3 * MAX_PRESENT_OWNERS)))
    assert there.meet(Selection(ADA)) == MetConditions(tenant=True, user=False)
    there.add([ADA])
    assert there.meet(Selection(ADA)) == MetConditions(tenant=True, user=False)


def test_what_is_there_at_the_beginning_counts_and_at_most_so_many_are_asked_for() -> None:
    asked: list[tuple[str, int]] = []

    def values(field: str, most: int) -> list[str]:
        asked.append((field, most))
        return {"tenant": ["acme"], "user": ["ada", ""]}[field]

    assert PresentOwners(values).meet(Selection(ADA)) == MetConditions(tenant=True, user=True)
    assert asked == [("tenant", MAX_PRESENT_OWNERS + 1), ("user", MAX_PRESENT_OWNERS + 1)]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (Selection(ADA), {ADA, ACME}),
        (Selection(ACME), {ACME}),
        (Selection(ADA, Whose.OWN), {ADA}),
        (Selection(ACME, Whose.OWN), {ACME}),
        (Selection(ACME, Whose.ALL), {ADA, BOB, ACME}),
    ],
)
def test_a_hit_of_anybody_else_is_none(asked: Selection, meant: set[Owner]) -> None:
    assert {owner for owner in (ADA, BOB, ACME, OTHER) if asked.means(owner)} == meant
