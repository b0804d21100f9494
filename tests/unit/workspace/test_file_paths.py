"""Which paths of files there are, and which are refused with a reason."""

import pytest

from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.file_paths import Glob, is_path, read_path, safe_name


@pytest.mark.parametrize(
    "path", ["a", "notes/today.md", "a b/c d.txt", "数据/表.csv", "émile.txt", ".env", "a..b", "👩‍💻.md"]
)
def test_an_ordinary_path_is_taken_as_it_is(path: str) -> None:
    assert read_path(path) == path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "begins with /"),
        ("../x", "must not be empty, `.` or `..`"),
        ("a/../../x", "must not be empty"),
        ("a/./b", "must not be empty"),
        ("a//b", "must not be empty"),
        ("a/", "must not be empty"),
        ("a\\..\\b", "backslash"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\u202egnp.exe", "format"),
        ("a\ud800", "unassigned"),
        ("a\ufffd", "not UTF-8"),
        ("e\u0301.txt", "composed form"),
        ("\uff0e\uff0e/x", "looks like"),
        ("\u2025/x", "looks like"),
        ("a\uff0fb", "looks like"),
        (" a", "space"),
        ("a ", "space"),
        ("/".join(["a"] * 17), "at most 16"),
        ("/".join(["a"] * 10_000), "at most 1024 bytes"),
        ("a" * 201, "more than 200 bytes"),
        ("数" * 100, "more than 200 bytes"),
        ("a" * 10_000_000, "at most 1024 bytes"),
    ],
)
def test_a_path_that_could_mean_another_place_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(FileRefusedError, match=why) as refused:
        read_path(path)
    assert len(str(refused.value)) < 600
    assert not is_path(path)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("plot.png", "plot.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.csv", "x.csv"),
        ("", "result.bin"),
        ("..", "result.bin"),
        ("a\0b\n.txt", "a_b_.txt"),
        ("x" * 500, "x" * 180),
        ("\uff0e\uff0e", "result.bin"),
    ],
)
def test_a_name_that_others_chose_becomes_a_safe_one(given: str, kept: str) -> None:
    assert safe_name(given, "result.bin") == kept


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.md", ["a.md", "x/y/a.md"], ["a.txt"]),
        ("x/*.md", ["x/a.md"], ["a.md", "x/y/a.md"]),
        ("x/**", ["x/a", "x/y/z"], ["y/x/a"]),
        ("**/y/*", ["y/a", "x/y/a", "x/y/y/a"], ["x/y/z/a", "a"]),
        ("[ab].txt", ["a.txt"], ["c.txt"]),
        ("artifacts/*/*", ["artifacts/c/x"], ["artifacts/x"]),
    ],
)
def test_a_glob_means_names_and_folders(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = Glob(glob)
    assert [pattern.matches(path) for path in yes] == [True] * len(yes)
    assert [pattern.matches(path) for path in no] == [False] * len(no)


def test_a_hostile_glob_is_quick() -> None:
    pattern = Glob("/".join(["**", "*a*a*a*a*a*b"] * 8))
    assert not pattern.matches("/".join(["a" * 60] * 16))
