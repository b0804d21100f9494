"""A memory belongs to the user who is named, else to its session alone, and is shared only where somebody says so."""

import pytest

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.graph.knowledge import Support
from pentad.shared.graph.neo4j_rows import holder_text
from pentad.shared.memory.points import cut_task, points_of
from pentad.shared.owners import Owner, session_holder
from pentad.shared.segments.passages import owned, passages_of
from tests.unit.segments.transcripts import answered, said

ALONE = [said("My salary is 4,000 euros.") | {"memory_session": "s1"}, answered("Noted.")]


def test_what_is_said_without_a_user_belongs_to_its_session_alone() -> None:
    """Both the message and its answer; it was everybody's."""
    assert {passage.holder for passage in passages_of(ALONE)} == {session_holder("s1")}
    owners = {point.payload.owner for point in points_of(cut_task("t", "task-0-a", "s1", ALONE), [[1.0], [1.0]])}
    assert owners == {Owner("t", None, "s1")}


def test_what_was_said_before_there_was_a_scope_stays_shared() -> None:
    assert {passage.holder for passage in passages_of([said("The ferry leaves at nine."), answered("Noted.")])} == {
        None
    }


def test_a_message_of_a_session_is_not_taken_for_its_tasks_first_user() -> None:
    """Only of versions that did not write who speaks is all that a task says its beginner's."""
    assert owned(ALONE, "ada") == ALONE


@pytest.mark.parametrize(
    ("reader", "sees"),
    [
        (Owner("t"), {None}),
        (Owner("t", "ada"), {None, "ada"}),
        (Owner("t", None, "s1"), {None, "/s1"}),
        (Owner("t", "ada", "s1"), {None, "ada", "/s1"}),
        (Owner("t", "s1"), {None, "s1"}),
    ],
)
def test_a_reader_sees_what_is_shared_his_own_and_what_is_the_named_sessions(
    reader: Owner, sees: set[str | None]
) -> None:
    """A user who is called like a session does not see what is that session's."""
    holders = (None, "ada", "bob", "s1", "/s1", "/s2", "/ada")
    assert {holder for holder in holders if reader.sees(holder)} == sees


@pytest.mark.parametrize("owner", [Owner("t"), Owner("t", "ada"), Owner("t", None, "s1")])
def test_a_holder_says_whose_a_memory_is(owner: Owner) -> None:
    assert Owner.of_holder("t", owner.holder) == owner


def test_a_holder_that_is_none_makes_no_owner() -> None:
    with pytest.raises(MemoryRefusedError, match="identifiers"):
        Owner.of_holder("t", "//s1")


@pytest.mark.parametrize("holder", ["ada", "/s1", "auth0|abc", "100%", None])
def test_a_holder_is_one_part_of_a_supports_text(holder: str | None) -> None:
    """Parts stand between `|`, which ids of other systems may have."""
    support = Support("a1.x", "task-0-a", holder, 1)
    assert "|" not in holder_text(support.user)
