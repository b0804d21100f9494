"""What names an actor becomes part of keys and of paths."""

import pytest

from pentad.shared.keys import actor_parts


def test_an_actor_is_a_tenant_and_a_name() -> None:
    assert actor_parts("acme/task-0-a.b_c~d@e") == ("acme", "task-0-a.b_c~d@e")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "acme/",
        "/task-0-a",
        "acme/task-0-a/../../x",
        "../task-0-a",
        "acme/..",
        "a:b/c",
        "a/{0}",
        "a/b\n",
        "a/\0",
        "a/" + "b" * 129,
        "é/a",
        "a/b c",
    ],
)
def test_what_could_leave_its_place_is_no_actor(text: str) -> None:
    with pytest.raises(ValueError, match="is no actor"):
        actor_parts(text)
