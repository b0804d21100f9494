"""A small file is written whole or not at all."""

import os
from pathlib import Path

import pytest

from pentad.shared.private_files import replace_file


def test_a_file_takes_the_place_of_the_one_before_and_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for data in (b"first", b"second"):
        replace_file(str(path), data)
    assert (path.read_bytes(), path.stat().st_mode & 0o777, os.listdir(tmp_path)) == (b"second", 0o600, ["a"])


def test_a_write_that_fails_leaves_the_file_before_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    replace_file(str(path), b"first")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(path), b"second")
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"first", ["a"])
