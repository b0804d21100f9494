"""`.env` is read as people write it; a line that cannot be read is named and not shown."""

import os
from pathlib import Path

import pytest

from pentad.shared.command_settings import adopt_env_file, read_env_file
from pentad.shared.errors import SettingsError


def test_the_usual_forms_are_read(tmp_path: Path) -> None:
    lines = [
        "\ufeff# a comment",
        "",
        "A=1",
        "export B = two words  # a comment",
        "C='single # $X'",
        'D="double \\"quoted\\"\\nand a line"  # more',
        "E=",
        "F=a#b=c",
        "A=again\r",
    ]
    path = tmp_path / ".env"
    path.write_text("\n".join(lines))
    assert read_env_file(path) == {
        "A": "again",
        "B": "two words",
        "C": "single # $X",
        "D": 'double "quoted"\nand a line',
        "E": "",
        "F": "a#b=c",
    }
    assert read_env_file(tmp_path / "none") == read_env_file(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"A=1\nsk-secret", "line 2 is not NAME=VALUE"),
        (b"A='sk-secret", "line 1: the quotes around the value of A do not close"),
        (b"A=\xffsk-secret", "is not UTF-8"),
        (b"A=sk-secret\0", "is no file of variables"),
        (b"A=1\n" * 20_000, "is no file of variables"),
    ],
)
def test_what_cannot_be_read_is_named_and_not_shown(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as refused:
        read_env_file(path)
    assert "sk-secret" not in str(refused.value)


def test_what_is_set_goes_before_what_stands_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".env"
    path.write_text("PENTAD_TEST_SET=file\nPENTAD_TEST_UNSET=file\n")
    monkeypatch.setenv("PENTAD_TEST_SET", "shell")
    monkeypatch.setenv("PENTAD_TEST_UNSET", "")
    monkeypatch.delenv("PENTAD_TEST_UNSET")
    adopt_env_file(path)
    assert (os.environ["PENTAD_TEST_SET"], os.environ["PENTAD_TEST_UNSET"]) == ("shell", "file")
