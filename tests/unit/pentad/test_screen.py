"""The chat's terminal: how a long line is cut into rows, and what is kept of what was typed."""

import io
import re
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from pentad.cli.history import ENTRIES, Kept
from pentad.cli.screen import Screen
from pentad.cli.wrapping import wrapped


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [""]),
        ("abc", ["abc"]),
        ("abcd", ["abcd"]),
        ("abcdefghi", ["abcd", "efgh", "i"]),
        ("你好吗", ["你好", "吗"]),
        ("a你好", ["a你", "好"]),
        ("é\u0301é\u0301é\u0301é\u0301é", ["é\u0301é\u0301é\u0301é\u0301", "é"]),
    ],
)
def test_a_line_is_cut_by_what_its_characters_take(text: str, rows: list[str]) -> None:
    assert wrapped(text, 4) == rows


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("The quick brown fox jumps", 10, ["The quick", "brown fox", "jumps"]),
        ("aaaa bbbb  cc", 4, ["aaaa", "bbbb", "cc"]),
        ("see abcdefghijkl now", 8, ["see", "abcdefgh", "ijkl now"]),
        ("你好，世界。再见", 6, ["你好，", "世界。", "再见"]),
        ("see 东京塔 now", 8, ["see 东京", "塔 now"]),
        ("• one two three", 9, ["• one two", "  three"]),
        ("  10. one two", 12, ["  10. one", "      two"]),
        ("│ one two", 6, ["│ one", "  two"]),
        ("\tx y z w", 8, ["    x y", "    z w"]),
    ],
)
def test_rows_end_between_words_and_hang_below_the_text_of_a_list(text: str, columns: int, rows: list[str]) -> None:
    assert wrapped(text, columns) == rows


def test_colours_take_no_columns_and_go_on_in_the_next_row_alone() -> None:
    bold, red, end = "\x1b[1m", "\x1b[31m", "\x1b[0m"
    assert wrapped(f"{bold}one two{end} three {red}four five{end}", 9) == [
        f"{bold}one two{end}",
        "three",
        f"{red}four five{end}",
    ]
    assert wrapped(f"{bold}{red}one two{end}", 4) == [f"{bold}{red}one{end}", f"{bold}{red}two{end}"]


def test_a_row_ends_some_time_also_of_characters_that_take_no_column() -> None:
    for text in ("a" + "\u0301" * 5_000, "\u200b" * 5_000, "a b" + "\u0301" * 5_000):
        rows = wrapped(text, 80)
        assert "".join(rows) == text
        assert max(map(len, rows)) <= 1_003


@pytest.mark.parametrize(
    ("letters", "columns"),
    [("x" * 600, 300), ("\u0301" * 3_000, 80), ("\u4e2d" * 3_000, 10)],
    ids=["a wide window", "accents without end", "a narrow window"],
)
def test_a_line_that_comes_letter_by_letter_in_colour_makes_no_empty_rows_and_is_kept_only_in_part(
    tmp_path: Path, letters: str, columns: int
) -> None:
    class Window(DummyOutput):
        def get_size(self) -> Size:
            return Size(rows=24, columns=columns)

    out, longest = io.StringIO(), 0
    with create_app_session(input=DummyInput(), output=Window()):
        screen = Screen(out, "> ", tmp_path / "history", lambda: None)
        for letter in letters:
            screen.put("task", f"\x1b[1m{letter}\x1b[0m", str)
            longest = max(longest, len("".join(screen._unfinished.rows(10_000))))
        screen.put("task", "\n", str)
    shown = out.getvalue()
    assert re.sub(r"\x1b\[\d+m|\n", "", shown) == letters
    assert "" not in shown.removesuffix("\n").split("\n")
    assert longest < 10 * 1_100


@pytest.mark.parametrize("columns", [0, 1, 2, 3])
def test_a_window_of_hardly_any_columns_shows_everything_all_the_same(columns: int) -> None:
    rows = wrapped("1. ab 你好 cd", columns)
    assert "".join(rows).replace(" ", "") == "1.ab你好cd"


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
