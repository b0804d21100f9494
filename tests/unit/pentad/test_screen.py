"""The chat's terminal: how a long line is cut into rows, and what is kept of what was typed."""

from pathlib import Path

import pytest

from pentad.cli.history import ENTRIES, Kept
from pentad.cli.screen import wrapped


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("abc", ["abc"]),
        ("abcd", ["abcd"]),
        ("abcdefghi", ["abcd", "efgh", "i"]),
        ("你好吗", ["你好", "吗"]),
        ("a你好", ["a你", "好"]),
    ],
)
def test_a_line_is_cut_by_what_its_characters_take(text: str, rows: list[str]) -> None:
    assert wrapped(text, 4) == rows


def test_the_history_is_bounded_private_and_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    history = Kept(path)
    for number in range(ENTRIES + 5):
        history.store_string(f"line {number}\npasted")
    again = list(Kept(path).load_history_strings())
    assert (len(again), again[0]) == (ENTRIES, f"line {ENTRIES + 4} pasted")
    assert len(path.read_text().splitlines()) == ENTRIES
    assert oct(path.stat().st_mode)[-3:] == "600"


def test_without_a_place_to_keep_it_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = Kept(tmp_path / "file" / "history")
    history.store_string("x")
    assert list(history.load_history_strings()) == []
