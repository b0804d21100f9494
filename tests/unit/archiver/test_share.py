"""How much of a task is one user's."""

import pytest

from pentad.services.archiver.domain import Share, share_of


def said(*users: str | None) -> list[dict[str, str]]:
    """A transcript in which these users speak, each answered; None: nobody in particular."""
    lines = [{"role": "user", "content": "x", **({"user_id": user} if user else {})} for user in users]
    return [line for each in lines for line in (each, {"role": "assistant", "content": "y"})]


@pytest.mark.parametrize(
    ("messages", "beginner", "share"),
    [
        (said("ada"), "ada", "whole"),
        (said("ada", "ada"), "bob", "whole"),
        (said("ada", "bob"), "ada", "part"),
        (said("bob", "ada"), "bob", "part"),
        (said("ada", None), "ada", "part"),
        (said("bob"), "bob", "none"),
        (said("bob"), "ada", "none"),
        (said(None), "ada", "whole"),  # versions before long-term memory did not say who speaks
        (said(None), "bob", "none"),
        (said(None), "", "none"),
        ([], "ada", "whole"),
        ([], "bob", "none"),
        ([{}, {"role": "exclusion", "positions": []}], "ada", "whole"),
        ([{"role": "user", "content": "of bob", "origin": "context", "user_id": "bob"}, *said("ada")], "ada", "whole"),
    ],
)
def test_a_task_is_a_users_as_far_as_nobody_else_has_spoken(
    messages: list[dict[str, str]], beginner: str, share: Share
) -> None:
    assert share_of(messages, beginner, "ada") == share
