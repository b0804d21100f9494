"""Texts of others, shown."""

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from pentad.shared.clipping import clip, plain, said_by
from pentad.shared.work.entry import complaint


def test_what_a_terminal_would_obey_is_written_as_its_code() -> None:
    assert plain("a\x1b[31m\r\nb\x00\x9b\u202ec\ud800", 100) == "a\\x1b[31m b\\x00\\x9b\\u202ec\\ud800"


@pytest.mark.parametrize("length", [9, 10, 11, 10_000_000])
def test_it_has_an_end(length: int) -> None:
    assert plain("x" * length, 10) == ("x" * length if length <= 10 else "x" * 10 + "…")


@pytest.mark.parametrize(
    ("text", "kept"), [("ä" * 3, "ä" * 3), ("ä" * 6, "ää"), ("a" * 5, "a" * 5), ("\U0001f600" * 2, "\U0001f600")]
)
def test_a_text_is_cut_at_a_character(text: str, kept: str) -> None:
    assert clip(text, 6 if kept == text else 5) == kept


def test_an_error_that_raises_when_asked_still_says_something() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert said_by(MuteError()) == "(it cannot say what: its text raises ValueError)"


def test_a_complaint_about_an_entry_is_short_whatever_its_fields_are_called() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")

    with pytest.raises(ValidationError) as refused:
        Strict.model_validate({"\x1b[2J" + "k" * 10_000_000: 1, **{f"f{n}": 1 for n in range(1000)}})
    said = complaint(refused.value)
    assert len(said) < 5 * 500
    assert "\x1b" not in said
