"""Control in words is a whole short message; what only contains such words is for a task."""

import pytest

from pentad.services.router.domain.control_words import MAX_CONTROL_CHARS, control_of
from tests.unit.digests.test_wording import HOSTILE
from tests.unit.router.control_sayings import CONTROL, ORDINARY


def test_the_labelled_set_is_as_large_as_it_says() -> None:
    assert len(CONTROL) == len(ORDINARY) == 30
    assert {any(char >= "\u4e00" for char in text) for text in (*CONTROL, *ORDINARY)} == {True, False}


@pytest.mark.parametrize("text", CONTROL)
def test_control_is_understood(text: str) -> None:
    assert control_of(text) == CONTROL[text]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_looks_like_control_is_for_a_task(text: str) -> None:
    assert control_of(text) is None


@pytest.mark.parametrize("text", CONTROL)
def test_a_longer_message_is_no_control(text: str) -> None:
    assert control_of(f"{text} and then write to Anna about the dinner") is None
    assert control_of(text + " " * MAX_CONTROL_CHARS) is None


@pytest.mark.parametrize("text", [*HOSTILE, "no " * 20, "请" * 60, "，" * 60, "please " * 8])
def test_other_text_is_none_at_once(text: str) -> None:
    assert control_of(text) is None
    assert control_of(text[:MAX_CONTROL_CHARS]) is None
